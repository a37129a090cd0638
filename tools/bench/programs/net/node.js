// The same servers in Node: `node.js echo|http|json address port`.
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
  json: () => {
    const route = /^\/items\/([^/?]+)$/
    const server = require('http').createServer((request, response) => {
      const found = request.method === 'GET' && route.exec(request.url)
      if (!found) {
        response.statusCode = 404
        response.end()
        return
      }
      const id = decodeURIComponent(found[1])
      const body = JSON.stringify({ id, name: 'a thing' })
      response.setHeader('Content-Type', 'application/json')
      response.setHeader('Content-Length', Buffer.byteLength(body))
      response.end(body)
    })
    server.headersTimeout = 10000
    server.keepAliveTimeout = 60000
    return server
  },
}

servers[protocol]().listen({ host: address, port: Number(port), backlog: 1024 })
