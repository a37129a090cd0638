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
	"mutex":      mutex,
	"event":      event,
	"select":     selectOfFour,
	"suspend":    semaphore, // parking on a channel is the nearest
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

func mutex(n int) int {
	var lock sync.Mutex
	turns, held, worst := n/2, 0, 0
	body := func() {
		for i := 0; i < turns; i++ {
			lock.Lock()
			held++
			runtime.Gosched()
			if held > worst {
				worst = held
			}
			held--
			lock.Unlock()
		}
	}
	together(body, body)
	if worst != 1 {
		fail("both held the lock")
	}
	return turns * 2
}

// A condition variable with a flag takes the place of an event.
func event(n int) int {
	var lock sync.Mutex
	turns := n / 2
	flags := [2]bool{true, false}
	set := [2]*sync.Cond{sync.NewCond(&lock), sync.NewCond(&lock)}
	body := func(me int) func() {
		return func() {
			for i := 0; i < turns; i++ {
				lock.Lock()
				for !flags[me] {
					set[me].Wait()
				}
				flags[me] = false
				flags[1-me] = true
				set[1-me].Signal()
				lock.Unlock()
			}
		}
	}
	together(body(0), body(1))
	return turns * 2
}

func selectOfFour(n int) int {
	var list [4]chan int
	for i := range list {
		list[i] = make(chan int)
	}
	sum := 0
	together(func() {
		for i := 1; i <= n; i++ {
			list[i%4] <- i
		}
	}, func() {
		for i := 0; i < n; i++ {
			select {
			case value := <-list[0]:
				sum += value
			case value := <-list[1]:
				sum += value
			case value := <-list[2]:
				sum += value
			case value := <-list[3]:
				sum += value
			}
		}
	})
	if sum != n*(n+1)/2 {
		fail("values were lost")
	}
	return n
}
