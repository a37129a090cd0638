// The same server in Node: `node.js echo|http address port`.
const [protocol, address, port] = process.argv.slice(2)

const servers = {
  echo: () => require('net').createServer({ noDelay: true }, (client) => {
    let rest = ''
    client.setEncoding('latin1')
    client.on('error', () => client.destroy())
    client.on('data', (data) => {
      rest += data
      const end = rest.lastIndexOf('\n') + 1
      if (end > 0) {
        client.write(rest.slice(0, end), 'latin1')
        rest = rest.slice(end)
      }
    })
  }),
  http: () => {
    const server = require('http').createServer((request, response) => {
      response.setHeader('Content-Type', 'text/plain')
      response.end('Hello, world!\n')
    })
    server.keepAliveTimeout = 0
    return server
  },
}

servers[protocol]().listen({ host: address, port: Number(port), backlog: 1024 })
