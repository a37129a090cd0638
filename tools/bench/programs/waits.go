// A program that waits, in Go: `waits idle case` prints the same as idle.lua, and `waits delay seconds
// count` the same as delay.lua.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func every(length time.Duration) {
	for range time.NewTicker(length).C {
	}
}

func listen() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	listener.Accept()
}

func crowd(never chan int) {
	var waiting sync.WaitGroup
	waiting.Add(10000)
	for i := 0; i < 10000; i++ {
		go func() {
			waiting.Done()
			<-never
		}()
	}
	waiting.Wait()
}

func compute() {
	start := time.Now()
	for time.Since(start) < time.Second {
	}
}

func idle(name string) {
	switch name {
	case "second":
		go every(time.Second)
	case "kilohertz":
		go every(time.Millisecond)
	case "listen":
		go listen()
	case "crowd":
		crowd(make(chan int))
	case "hour":
		time.AfterFunc(time.Hour, func() {})
	case "busy":
		go compute()
		compute()
	}
	fmt.Println("ready")
	// The main goroutine waits for a signal that is never sent.
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
}

func delay(seconds float64, count int) {
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

func main() {
	if os.Args[1] == "idle" {
		idle(os.Args[2])
		return
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	count, _ := strconv.Atoi(os.Args[3])
	delay(seconds, count)
}
