// A program that waits, in Go: `idle case`. Prints the same as idle.lua.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
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

func main() {
	switch os.Args[1] {
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
