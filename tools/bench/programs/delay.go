// The lateness of sleeps in Go: `delay seconds count`. Prints the same as delay.lua.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	count, _ := strconv.Atoi(os.Args[2])
	length := time.Duration(seconds * 1e9)
	late := make([]float64, count)
	start := time.Now()
	for i := range late {
		before := time.Now()
		time.Sleep(length)
		late[i] = float64(time.Since(before)-length) / 1e3
	}
	fmt.Println("took_s", time.Since(start).Seconds())
	fmt.Print("late_us")
	for _, one := range late {
		fmt.Printf(" %.2f", one)
	}
	fmt.Println()
}
