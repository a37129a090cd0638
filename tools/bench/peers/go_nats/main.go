// The peer Go's NATS client: queues of JetStream, and requests. See ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const module = "github.com/nats-io/nats.go"

// One run: how many are in flight, how many jobs or calls there are, and the bytes of each.
type run struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	inFlight int
	jobs     int
	payload  []byte
	// Whether one goroutine publishes and reads the acknowledgements later.
	isAsync bool
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println("nats.go", version())
		return
	}
	if len(os.Args) != 6 || os.Args[1] != "plain" && os.Args[1] != "async" {
		fail("usage: peer version | plain|async PART IN_FLIGHT JOBS BYTES; NATS_URL has the server")
	}
	r := &run{isAsync: os.Args[1] == "async", inFlight: count(os.Args[3]), jobs: count(os.Args[4])}
	r.payload = make([]byte, count(os.Args[5]))
	for i := range r.payload {
		r.payload[i] = 'x'
	}
	conn, err := nats.Connect(os.Getenv("NATS_URL"))
	check(err)
	r.conn = conn
	switch os.Args[2] {
	case "send":
		r.open()
		r.measure(r.send)
	case "receive":
		r.open()
		r.fill()
		r.measure(r.receive)
	case "both":
		r.open()
		r.measure(r.both)
	case "latency":
		r.open()
		r.measureTimes(r.latency)
	case "call":
		r.measureTimes(r.call)
	default:
		fail("no such part: " + os.Args[2])
	}
	conn.Close()
}

// The same stream and consumer as that of a queue of Baton.
func (r *run) open() {
	var err error
	r.js, err = jetstream.New(r.conn, jetstream.WithPublishAsyncMaxPending(r.inFlight),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			check(err)
		}))
	check(err)
	context := context.Background()
	stream, err := r.js.CreateStream(context, jetstream.StreamConfig{
		Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute,
	})
	check(err)
	r.consumer, err = stream.CreateConsumer(context, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		MaxAckPending: -1,
	})
	check(err)
}

// Stores all jobs. Each has an id, so that one that is sent again is stored once.
func (r *run) send() {
	if r.isAsync {
		r.sendAsync()
		return
	}
	together(r.inFlight, func(first int) {
		for number := first; number < r.jobs; number += r.inFlight {
			_, err := r.js.Publish(context.Background(), "jobs", r.payload, id(number))
			check(err)
		}
	})
}

func (r *run) sendAsync() {
	for number := 0; number < r.jobs; number++ {
		_, err := r.js.PublishAsync("jobs", r.payload, id(number))
		check(err)
	}
	<-r.js.PublishAsyncComplete()
}

func id(number int) jetstream.PublishOpt {
	return jetstream.WithMsgID("job " + strconv.Itoa(number))
}

func (r *run) fill() {
	plain := *r
	plain.inFlight = min(r.jobs, 256)
	plain.send()
}

// Receives all jobs with the client's own prefetching, and acknowledges each. The server has all
// acknowledgements at the end.
func (r *run) receive() {
	jobs := make(chan jetstream.Msg)
	consuming, err := r.consumer.Consume(func(job jetstream.Msg) { jobs <- job })
	check(err)
	together(r.inFlight, func(first int) {
		for number := first; number < r.jobs; number += r.inFlight {
			check((<-jobs).Ack())
		}
	})
	check(r.conn.Flush())
	consuming.Stop()
}

func (r *run) both() {
	done := make(chan bool)
	go func() {
		r.receive()
		close(done)
	}()
	r.send()
	<-done
}

// One job after the other: the times from sending each until it is received.
func (r *run) latency() []float64 {
	received := make(chan time.Time)
	consuming, err := r.consumer.Consume(func(job jetstream.Msg) {
		now := time.Now()
		check(job.Ack())
		received <- now
	})
	check(err)
	defer consuming.Stop()
	times := make([]float64, r.jobs)
	for number := range times {
		sent := time.Now()
		go func() {
			_, err := r.js.Publish(context.Background(), "jobs", r.payload, id(number))
			check(err)
			received <- time.Time{}
		}()
		for range 2 {
			if at := <-received; !at.IsZero() {
				times[number] = microseconds(at.Sub(sent))
			}
		}
	}
	return times
}

// Requests to a service of this program, and their times.
func (r *run) call() []float64 {
	served, err := r.conn.QueueSubscribe("service", "peer", func(request *nats.Msg) {
		check(request.Respond(request.Data))
	})
	check(err)
	check(r.conn.Flush())
	times := make([]float64, r.jobs)
	together(r.inFlight, func(first int) {
		for number := first; number < r.jobs; number += r.inFlight {
			sent := time.Now()
			_, err := r.conn.Request("service", r.payload, 10*time.Second)
			check(err)
			times[number] = microseconds(time.Since(sent))
		}
	})
	check(served.Unsubscribe())
	return times
}

// Runs so many goroutines with the numbers from 0, and waits for all.
func together(count int, work func(number int)) {
	done := make(chan bool)
	for number := 0; number < count; number++ {
		go func() {
			work(number)
			done <- true
		}()
	}
	for number := 0; number < count; number++ {
		<-done
	}
}

func (r *run) measure(work func()) {
	r.measureTimes(func() []float64 {
		work()
		return nil
	})
}

func (r *run) measureTimes(work func() []float64) {
	begin, cpu := time.Now(), cpuTime()
	times := work()
	elapsed, used := time.Since(begin).Seconds(), cpuTime()-cpu
	figures := map[string]any{
		"rate": float64(r.jobs) / elapsed, "cpu_us": used / float64(r.jobs),
	}
	if times != nil {
		figures["us"] = times
	}
	text, err := json.Marshal(figures)
	check(err)
	fmt.Println(string(text))
}

func microseconds(time time.Duration) float64 { return float64(time.Nanoseconds()) / 1e3 }

// The CPU time of all threads of this program, in microseconds.
func cpuTime() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown"
}

func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		fail("not a count: " + text)
	}
	return n
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}
