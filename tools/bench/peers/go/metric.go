package main

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

var stopped atomic.Bool

// Each test starts its goroutines and returns its counters. Goroutines have no priorities. The one
// that reads the counters tells them to stop, and they check this after each count.
var metrics = map[string]func() []*int64{
	"basic":           metricBasic,
	"cooperative":     metricCooperative,
	"message":         metricMessage,
	"synchronization": metricSynchronization,
	"memory":          metricMemory,
}

func runMetric(name, seconds string) {
	start := metrics[name]
	interval, err := strconv.ParseFloat(seconds, 64)
	if start == nil || err != nil {
		fail("no such test or interval: " + name + " " + seconds)
	}
	begin, cpu := time.Now(), cpuTime()
	time.AfterFunc(time.Duration(interval*1e9), func() { stopped.Store(true) })
	var sum int64
	for _, counter := range start() {
		sum += *counter
	}
	fmt.Printf("{\"counts\": %d, \"seconds\": %.6f, \"cpu\": %.6f}\n", sum, time.Since(begin).Seconds(), (cpuTime()-cpu)/1e9)
}

func counting(body func()) []*int64 {
	counter := new(int64)
	together(func() {
		for !stopped.Load() {
			body()
			*counter++
		}
	})
	return []*int64{counter}
}

// A variable of the whole program, so that the compiler keeps every store.
var words [1024]uint64

func metricBasic() []*int64 {
	passes := uint64(0)
	return counting(func() {
		for i := range words {
			words[i] = (words[i] + passes) ^ words[i]
		}
		passes++
	})
}

func metricCooperative() []*int64 {
	counters := make([]*int64, 5)
	bodies := make([]func(), 5)
	for i := range counters {
		counter := new(int64)
		counters[i] = counter
		bodies[i] = func() {
			for !stopped.Load() {
				runtime.Gosched()
				*counter++
			}
		}
	}
	together(bodies...)
	checkTurns(counters)
	return counters
}

// Go does not promise turns. Goroutines that yielded wait in the global queue, and every 61st turn
// goes to the first of them. On a busy machine this favours some. So the check is only that each
// counter is near the mean.
func checkTurns(counters []*int64) {
	sum := int64(0)
	for _, counter := range counters {
		sum += *counter
	}
	mean := sum / int64(len(counters))
	for _, counter := range counters {
		if *counter < mean-mean/4 || *counter > mean+mean/4 || mean == 0 {
			fail(fmt.Sprintf("a counter is far from the mean: %d beside %d", *counter, mean))
		}
	}
}

func metricMessage() []*int64 {
	queue := make(chan [2]uint64, 10)
	sent := uint64(0)
	return counting(func() {
		queue <- [2]uint64{sent, ^sent}
		if <-queue != [2]uint64{sent, ^sent} {
			fail("a message is not what was sent")
		}
		sent++
	})
}

func metricSynchronization() []*int64 {
	semaphore := make(chan struct{}, 1)
	semaphore <- struct{}{}
	return counting(func() {
		<-semaphore
		semaphore <- struct{}{}
	})
}

var kept *[128]byte

func metricMemory() []*int64 {
	return counting(func() { kept = new([128]byte) })
}
