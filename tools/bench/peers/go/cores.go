package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Work and messages on two cores: cores map KIND SECONDS | message WAY KIND BYTES SECONDS |
// reference WHAT SIZE SECONDS | net PROTOCOL ADDRESS PORT.
func runCores(words []string) {
	runtime.GOMAXPROCS(2)
	switch {
	case len(words) == 3 && words[0] == "map":
		runMap(words[1], seconds(words[2]))
	case len(words) == 5 && words[0] == "message":
		runMessage(words[1], message(words[2], words[3]), seconds(words[4]))
	case len(words) == 4 && words[0] == "reference":
		runReference(words[1], count(words[2]), seconds(words[3]))
	case len(words) == 4 && words[0] == "net":
		runNet(words[1], words[2], words[3])
	default:
		fail("usage: peer cores map KIND SECONDS | message WAY KIND BYTES SECONDS | reference WHAT SIZE SECONDS | net PROTOCOL ADDRESS PORT")
	}
}

func seconds(text string) time.Duration {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		fail("not a number of seconds: " + text)
	}
	return time.Duration(n * float64(time.Second))
}

const queens = 7

// Counts the ways to place the queens from this row on.
func place(row int, columns, up, down *[2 * queens]bool) int {
	if row == queens {
		return 1
	}
	ways := 0
	for column := 0; column < queens; column++ {
		rising, falling := row+column, row-column+queens
		if !columns[column] && !up[rising] && !down[falling] {
			columns[column], up[rising], down[falling] = true, true, true
			ways += place(row+1, columns, up, down)
			columns[column], up[rising], down[falling] = false, false, false
		}
	}
	return ways
}

func placeQueens() int {
	var columns, up, down [2 * queens]bool
	return place(0, &columns, &up, &down)
}

func mandelbrot() int {
	const size, limit = 40, 50
	steps := 0
	for row := 0; row < size; row++ {
		for column := 0; column < size; column++ {
			cx, cy := float64(column)*3/size-2, float64(row)*2/size-1
			x, y, step := 0.0, 0.0, 0
			for step < limit && x*x+y*y < 4 {
				x, y = x*x-y*y+cx, 2*x*y+cy
				step++
			}
			steps += step
		}
	}
	return steps
}

type tree struct{ left, right *tree }

func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func (t *tree) nodes() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.nodes() + t.right.nodes()
}

func growTree() int { return grow(11).nodes() }

var chunks = map[string]func() int{"queens": placeQueens, "mandelbrot": mandelbrot, "trees": growTree}

// The elapsed time and CPU time in milliseconds in which the workers do all chunks together.
func workTogether(work func() int, all, workers int) (float64, float64) {
	results := make(chan int)
	start, cpu := time.Now(), cpuTime()
	for worker := 0; worker < workers; worker++ {
		go func() {
			sum := 0
			for n := 0; n < all/workers; n++ {
				sum += work()
			}
			results <- sum
		}()
	}
	sum := 0
	for worker := 0; worker < workers; worker++ {
		sum += <-results
	}
	if sum == 0 {
		fail("the work has no result")
	}
	return time.Since(start).Seconds() * 1e3, (cpuTime() - cpu) / 1e6
}

func runMap(kind string, least time.Duration) {
	work := chunks[kind]
	if work == nil {
		fail("not a kind of work: " + kind)
	}
	for all := 2; ; all *= 2 {
		runtime.GOMAXPROCS(1)
		one, oneCpu := workTogether(work, all, 1)
		if one >= least.Seconds()*1e3 {
			runtime.GOMAXPROCS(2)
			two, twoCpu := workTogether(work, all, 2)
			fmt.Printf("{\"one_ms\": %.3f, \"two_ms\": %.3f, \"speedup\": %.4f, \"cpu\": %.4f}\n",
				one, two, one/two, twoCpu/oneCpu)
			return
		}
	}
}

type order struct {
	id    int
	price float64
	name  string
	open  bool
}

// A value maker: a text is shared, a record is made anew for every message.
func message(kind, bytes string) func(int) any {
	switch kind {
	case "text":
		text := strings.Repeat("x", count(bytes))
		return func(int) any { return text }
	case "table":
		return func(id int) any { return &order{id, 12.5, "a small order", true} }
	}
	fail("not a kind of message: " + kind)
	return nil
}

// Repeats `run` with four times as many until it takes long enough, and prints the last one's
// figures for each of its messages.
func untilLong(least time.Duration, messages int, run func(n int)) {
	for n := 1; ; n *= 4 {
		start, cpu := time.Now(), cpuTime()
		run(n)
		if elapsed := time.Since(start); elapsed >= least {
			each := float64(n * messages)
			fmt.Printf("{\"us\": %.4f, \"cpu_us\": %.4f}\n",
				elapsed.Seconds()*1e6/each, (cpuTime()-cpu)/1e3/each)
			return
		}
	}
}

func runMessage(way string, create func(int) any, least time.Duration) {
	switch way {
	case "stream":
		data, done := make(chan any, 64), make(chan bool)
		untilLong(least, 1, func(n int) {
			go func() {
				for i := 0; i < n; i++ {
					<-data
				}
				done <- true
			}()
			for i := 0; i < n; i++ {
				data <- create(i)
			}
			<-done
		})
	case "pingpong":
		there, back := make(chan any), make(chan any)
		go func() {
			for value := range there {
				back <- value
			}
		}()
		untilLong(least, 2, func(n int) {
			for i := 0; i < n; i++ {
				there <- create(i)
				<-back
			}
		})
	default:
		fail("not a way to pass messages: " + way)
	}
}

func runReference(what string, size int, least time.Duration) {
	there, back := make(chan any), make(chan any)
	go func() {
		for value := range there {
			back <- value
		}
	}()
	var value any
	switch what {
	case "value":
		list := make([]int, size)
		value = &list
	case "buffer":
		value = make([]byte, size)
	default:
		fail("not a reference: " + what)
	}
	untilLong(least, 2, func(n int) {
		for i := 0; i < n; i++ {
			there <- value
			value = <-back
		}
	})
}
