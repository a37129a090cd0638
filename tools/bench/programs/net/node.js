// The same servers in Node: `node.js echo|http|json|work address port`.
const [protocol, address, port] = process.argv.slice(2)

// Computes for 50 ms of this processor.
function makeWork() {
  const sum = (count) => {
    let total = 0
    for (let i = 1; i <= count; i++) total += i % 7
    return total
  }
  sum(1e8)
  const begun = performance.now()
  sum(1e8)
  const count = 1e8 * 50 / (performance.now() - begun)
  return () => sum(count)
}

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
    const work = protocol === 'work' && makeWork()
    const route = /^\/(items|sums)\/([^/?]+)$/
    const server = require('http').createServer((request, response) => {
      const found = request.method === 'GET' && route.exec(request.url)
      if (!found) {
        response.statusCode = 404
        response.end()
        return
      }
      if (work && found[1] === 'sums') work()
      const id = decodeURIComponent(found[2])
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

servers.work = servers.json

servers[protocol]().listen({ host: address, port: Number(port), backlog: 1024 })
