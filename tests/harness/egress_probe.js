// SPDX-License-Identifier: Apache-2.0
// Runs inside a sandbox: takes a list of wishes as JSON, tells what became of each.
const dgram = require('dgram'), dns = require('dns'), net = require('net'), tls = require('tls');

const failed = e => ({ error: e.code || String(e) });

function collect(s, w, done) {
  let data = '';
  s.setTimeout(w.ms || 8000, () => { done({ error: 'TIMEOUT', data }); s.destroy(); });
  s.on('data', d => { data += d; if (w.until && data.includes(w.until)) { done({ data }); s.destroy(); } });
  s.on('end', () => done({ data }));
  s.on('close', () => done({ data }));
  s.on('error', e => done({ ...failed(e), data }));
}

const kinds = {
  tcp: (w, done) => {
    const s = net.connect({ host: w.host, port: w.port, allowHalfOpen: !!w.half }, () => {
      if (w.send) s.write(w.send);
      if (w.bytes) s.write(Buffer.alloc(w.bytes));
      if (w.half) s.end();
    });
    collect(s, w, done);
  },
  http: (w, done) => kinds.tcp({ ...w, port: w.port || 80, send:
    `GET ${w.path || '/'} HTTP/1.1\r\nHost: ${w.name || w.host}\r\nConnection: close\r\n\r\n` }, r =>
    done(r.error ? r : { data: r.data.split('\r\n\r\n')[1], length: (r.data.split('\r\n\r\n')[1] || '').length })),
  tls: (w, done) => {
    const s = tls.connect({ host: w.host, port: w.port || 443, servername: w.name, rejectUnauthorized: false }, () =>
      s.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
    collect(s, { ...w, until: 'hello' }, done);
  },
  udp: (w, done) => {
    const s = dgram.createSocket(w.host.includes(':') ? 'udp6' : 'udp4'), began = Date.now();
    const end = r => { clearTimeout(t); s.close(); done({ ...r, ms: Date.now() - began }); };
    const t = setTimeout(() => end({ error: 'TIMEOUT' }), w.ms || 3000);
    s.on('error', e => end(failed(e)));
    s.on('message', (m, from) => end({ hex: m.toString('hex'), from: from.address, port: from.port }));
    s.connect(w.port, w.host, () => s.send(w.hex ? Buffer.from(w.hex, 'hex') : 'hello'));
  },
  lookup: (w, done) => dns.lookup(w.host, { all: true, family: w.family || 0 }, (e, all) =>
    done(e ? failed(e) : { all: all.map(a => a.address) })),
  ask: (w, done) => {
    const r = new dns.Resolver({ timeout: 3000, tries: 1 });
    if (w.server) r.setServers([w.server]);
    r.resolve(w.host, w.type || 'A', (e, all) => done(e ? failed(e) : { all }));
  },
  flood: (w, done) => {
    const s = dgram.createSocket('udp4'), codes = {};
    let left = w.count;
    const end = () => { s.close(); done({ codes }); };
    let t = setTimeout(end, 1500);
    s.on('message', m => { codes[m[3] & 15] = (codes[m[3] & 15] || 0) + 1; clearTimeout(t); t = setTimeout(end, 1500); });
    const more = () => {
      for (let i = 0; i < 50 && left > 0; i++, left--) s.send(Buffer.from(w.hex, 'hex'), 53, w.host);
      if (left > 0) setImmediate(more);
    };
    more();
  },
  many: (w, done) => {
    let open = 0, bad = 0, over = 0;
    const all = [];
    const look = () => { if (open + bad === w.count) { process.stdout.write(`open ${open} bad ${bad}\n`); wait(); } };
    const wait = () => { if (!w.hold) { all.forEach(s => s.destroy()); done({ open, bad }); } };
    for (let i = 0; i < w.count; i++) {
      const s = net.connect(w.port, w.host);
      let got = false;
      all.push(s);
      s.on('data', () => { if (!got) { got = true; open++; look(); } });
      s.on('error', () => {});
      s.on('close', () => { if (!got) { bad++; look(); } else if (++over === open && w.hold) done({ open, bad, over }); });
    }
  },
};

const wishes = JSON.parse(process.argv[process.argv.length - 1]), results = [];
(async () => {
  for (const w of wishes)
    results.push(await new Promise(done => { let told = false;
      kinds[w.kind](w, r => { if (!told) { told = true; done(r); } }); }));
  process.stdout.write(JSON.stringify(results) + '\n', () => process.exit(0));
})();
