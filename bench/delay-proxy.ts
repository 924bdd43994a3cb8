import { connect, createServer, type AddressInfo } from 'node:net';

/** Passes bytes on, each answer a millisecond later. `node delay-proxy.js <port>`; prints its own port. */
const port = Number(process.argv[2]);
const server = createServer((client) => {
  const upstream = connect(port, '127.0.0.1').setNoDelay(true);
  client.setNoDelay(true);
  client.on('data', (bytes) => upstream.write(bytes));
  upstream.on('data', (bytes) => setTimeout(() => client.write(bytes), 1));
  client.on('close', () => upstream.destroy());
  upstream.on('close', () => setTimeout(() => client.end(), 2));
  client.on('error', () => undefined);
  upstream.on('error', () => undefined);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
