package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"
)

const body = "Hello, world!\n"

// The simple server, with a goroutine for each connection.
func runNet(protocol, address, port string) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		fail(err.Error())
	}
	switch protocol {
	case "echo":
		for {
			client, err := listener.Accept()
			if err != nil {
				fail(err.Error())
			}
			go echo(client)
		}
	case "http":
		answer := func(response http.ResponseWriter, request *http.Request) {
			response.Header().Set("Content-Type", "text/plain")
			io.WriteString(response, body)
		}
		fail(http.Serve(listener, http.HandlerFunc(answer)).Error())
	case "json", "work":
		routes := http.NewServeMux()
		routes.HandleFunc("GET /items/{id}", item)
		if protocol == "work" {
			work := makeWork()
			routes.HandleFunc("GET /sums/{id}", func(response http.ResponseWriter, request *http.Request) {
				work()
				item(response, request)
			})
		}
		server := http.Server{
			Handler:           routes,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       60 * time.Second,
		}
		fail(server.Serve(listener).Error())
	default:
		fail("not a protocol: " + protocol)
	}
}

func sum(count int) (total int) {
	for i := range count {
		total += i % 7
	}
	return total
}

// Its result is a function that computes for 50 ms of this processor.
func makeWork() func() int {
	begun := time.Now()
	sum(1e9)
	count := int(1e9 * 0.05 / time.Since(begun).Seconds())
	return func() int { return sum(count) }
}

func item(response http.ResponseWriter, request *http.Request) {
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(struct {
		Id   string `json:"id"`
		Name string `json:"name"`
	}{request.PathValue("id"), "a thing"})
}

func echo(client net.Conn) {
	defer client.Close()
	reader := bufio.NewReader(client)
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		if _, err := client.Write(line); err != nil {
			return
		}
	}
}
