// The peer Go for foreign calls, with cgo and goroutines. See ../README.md. The C functions are
// linked in.
package main

// #cgo CFLAGS: -O2 -I${SRCDIR}/../../c
// #include "calls.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const warmUp = 1000

func main() {
	runtime.GOMAXPROCS(1)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "version":
		fmt.Println(runtime.Version())
	case len(os.Args) == 6 && os.Args[1] == "calls":
		run(os.Args[3], number(os.Args[4]), number(os.Args[5]))
	default:
		fail("usage: peer version | calls LIBRARY CASE COUNT LENGTH")
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		fail("not a number: " + text)
	}
	return n
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}

func spin(times, length int) {
	for i := 0; i < times; i++ {
		C.calls_spin(C.int(length))
	}
}

func sleep(times, length int) {
	for i := 0; i < times; i++ {
		C.calls_sleep(C.int(length))
	}
}

func together(call func(times, length int), times, length int) {
	var group sync.WaitGroup
	for i := 0; i < 2; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			call(times/2, length)
		}()
	}
	group.Wait()
}

func run(name string, count, length int) {
	kind, way, _ := strings.Cut(name, "_")
	call := sleep
	if kind == "short" {
		call = spin
		spin(warmUp, length)
	} else if way == "learned" {
		together(sleep, 10, min(length, 20000))
	}
	start := time.Now()
	if way == "sequential" {
		call(count, length)
	} else {
		together(call, count, length)
	}
	fmt.Printf("{\"ms\": %.6f}\n", float64(time.Since(start).Nanoseconds())/1e6)
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
