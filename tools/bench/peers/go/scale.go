package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func runScale(n int) {
	runtime.GC()
	base := status("VmRSS") + status("VmPTE")
	released := make(chan struct{})
	var ended sync.WaitGroup
	ended.Add(n)
	var waiting atomic.Int64
	start := time.Now()
	for i := 0; i < n; i++ {
		go func() {
			waiting.Add(1)
			<-released
			ended.Done()
		}()
	}
	for waiting.Load() < int64(n) {
		runtime.Gosched()
	}
	spawned := time.Since(start)
	rss, pte := status("VmRSS"), status("VmPTE")
	start = time.Now()
	close(released)
	ended.Wait()
	fmt.Printf("{\"spawn_us\": %.3f, \"end_us\": %.3f, \"base_kib\": %d, \"rss_kib\": %d, \"pte_kib\": %d}\n",
		each(spawned, n), each(time.Since(start), n), base, rss, pte)
}

func each(duration time.Duration, n int) float64 {
	return float64(duration.Nanoseconds()) / 1e3 / float64(n)
}

// A line of /proc/self/status, in KiB.
func status(name string) int {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		fail(err.Error())
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var kib int
		if strings.HasPrefix(lines.Text(), name+":") {
			if _, err := fmt.Sscanf(lines.Text(), name+":%d", &kib); err == nil {
				return kib
			}
		}
	}
	fail("no " + name + " in /proc/self/status")
	return 0
}
