import { connect, createServer, type AddressInfo } from 'node:net';

/**
 * Passes bytes on, each answer so many milliseconds later. `node delay-proxy.js <port> <milliseconds>`; prints its own
 * port.
 */
const port = Number(process.argv[2]);
const delayMs = Number(process.argv[3]);
const server = createServer((client) => {
  const upstream = connect(port, '127.0.0.1').setNoDelay(true);
  client.setNoDelay(true);
  client.on('data', (bytes) => upstream.write(bytes));
  upstream.on('data', (bytes) => {
    if (delayMs > 0) setTimeout(() => client.write(bytes), delayMs);
    else client.write(bytes);
  });
  client.on('close', () => upstream.destroy());
  upstream.on('close', () => setTimeout(() => client.end(), 2));
  client.on('error', () => undefined);
  upstream.on('error', () => undefined);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
