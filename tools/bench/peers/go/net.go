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
	case "json":
		routes := http.NewServeMux()
		routes.HandleFunc("GET /items/{id}", item)
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
