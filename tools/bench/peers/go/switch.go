package main

import (
	"fmt"
	"runtime"
	"sync"
)

var cases = map[string]func(n int) int{
	"yield":      yield,
	"channel":    channel,
	"semaphore":  semaphore,
	"spawn_join": spawnJoin,
}

// Each case returns the number of its operations.
func runSwitch(name string, n int) {
	run := cases[name]
	if run == nil {
		fail("no such case: " + name)
	}
	start := cpuTime()
	operations := run(n)
	fmt.Printf("{\"ns\": %.3f}\n", (cpuTime()-start)/float64(operations))
}

func together(bodies ...func()) {
	var group sync.WaitGroup
	for _, body := range bodies {
		group.Add(1)
		go func(body func()) {
			defer group.Done()
			body()
		}(body)
	}
	group.Wait()
}

func yield(n int) int {
	turns := n / 2
	body := func() {
		for i := 0; i < turns; i++ {
			runtime.Gosched()
		}
	}
	together(body, body)
	return turns * 2
}

func channel(n int) int {
	values, sum := make(chan int), 0
	together(func() {
		for i := 1; i <= n; i++ {
			values <- i
		}
	}, func() {
		for i := 0; i < n; i++ {
			sum += <-values
		}
	})
	if sum != n*(n+1)/2 {
		fail("values were lost")
	}
	return n
}

// In Go, a buffered channel of empty values takes the place of a semaphore.
func semaphore(n int) int {
	mine, yours, turns := make(chan struct{}, 1), make(chan struct{}, 1), n/2
	mine <- struct{}{}
	together(func() {
		for i := 0; i < turns; i++ {
			<-mine
			yours <- struct{}{}
		}
	}, func() {
		for i := 0; i < turns; i++ {
			<-yours
			mine <- struct{}{}
		}
	})
	return turns * 2
}

func spawnJoin(n int) int {
	sum := 0
	for i := 1; i <= n; i++ {
		result := make(chan int, 1)
		go func(i int) { result <- i }(i)
		sum += <-result
	}
	if sum != n*(n+1)/2 {
		fail("results were lost")
	}
	return n
}
