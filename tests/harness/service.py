# SPDX-License-Identifier: Apache-2.0
"""A web server of the tests' own, to run inside a sandbox: node, no packages."""

SOURCE = r"""
const http = require('http'), crypto = require('crypto'), net = require('net')
const port = +process.argv[2], host = process.argv[3]
let connections = 0
const server = http.createServer((req, res) => {
  const url = new URL(req.url, 'http://x')
  const q = url.searchParams
  if (url.pathname === '/echo') {
    let size = 0; const sum = crypto.createHash('sha256')
    req.on('data', d => { size += d.length; sum.update(d) })
    req.on('end', () => { res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({method: req.method, url: req.url, headers: req.headers, size, sha256: sum.digest('hex'),
                              connections, trailers: req.trailers})) })
  } else if (url.pathname === '/sse') {
    res.writeHead(200, {'content-type': 'text/event-stream'})
    let n = 0; const more = () => { if (n++ < +q.get('n')) { res.write(`data: ${n}\n\n`); setTimeout(more, 20) } else res.end() }
    more()
  } else if (url.pathname === '/big') {
    const size = +q.get('size'), chunk = Buffer.alloc(65536, 'x'); let sent = 0
    if (q.get('length')) res.setHeader('content-length', size)
    const more = () => { while (sent < size) { const n = Math.min(65536, size - sent); sent += n
      if (!res.write(chunk.subarray(0, n))) { res.once('drain', more); return } } res.end() }
    more()
  } else if (url.pathname === '/status') {
    res.writeHead(+q.get('code'), {'x-was': 'here'}); res.end(+q.get('code') === 204 || +q.get('code') === 304 ? undefined : 'body')
  } else if (url.pathname === '/headers') {
    res.writeHead(200, {'set-cookie': ['a=1; Domain=localhost; Path=/x; HttpOnly', 'cay-preview=evil', 'b=2'],
      'service-worker-allowed': '/', 'clear-site-data': '"*"', 'strict-transport-security': 'max-age=1', 'x-kept': 'yes',
      'alt-svc': 'h3=":443"'})
    res.end('ok')
  } else if (url.pathname === '/answer') { res.setHeader(q.get('name'), q.get('value')); res.end('ok')
  } else if (url.pathname === '/redirect') { res.writeHead(302, {location: q.get('to')}); res.end()
  } else if (url.pathname === '/early') { res.writeHead(413, {'content-length': 3, connection: 'close'}); res.end('no\n')
  } else if (url.pathname === '/die') process.kill(process.pid, 'SIGKILL')
  else res.end('hello\n')
})
server.on('connection', () => connections++)
server.on('upgrade', (req, socket) => {
  const key = crypto.createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + key + '\r\n\r\n')
  let buf = Buffer.alloc(0)
  socket.on('data', d => { buf = Buffer.concat([buf, d])
    while (buf.length >= 6) { let n = buf[1] & 127, at = 2
      if (n === 126) { if (buf.length < 8) return; n = buf.readUInt16BE(2); at = 4 }
      if (buf.length < at + 4 + n) return
      const mask = buf.subarray(at, at + 4), data = Buffer.from(buf.subarray(at + 4, at + 4 + n)).map((b, i) => b ^ mask[i & 3])
      const op = buf[0]; buf = buf.subarray(at + 4 + n)
      const head = n < 126 ? Buffer.from([op, n]) : Buffer.from([op, 126, n >> 8, n & 255])
      socket.write(Buffer.concat([head, data])); if ((op & 15) === 8) socket.end() } })
  socket.on('error', () => {})
})
server.keepAliveTimeout = 60000
server.listen(port, host || '127.0.0.1', () => console.log('ready'))
"""

# Says these bytes to whoever connects and has asked, then closes.
RAW = r"""
const net = require('net')
net.createServer(s => { s.on('error', () => {}); s.once('data', () => { s.end(Buffer.from(process.argv[3], 'base64')) }) })
  .listen(+process.argv[2], '127.0.0.1', () => console.log('ready'))
"""
