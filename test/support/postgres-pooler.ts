import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';

/**
 * Passes everything on, and gives clients numbers of its own for the server's processes, as a pooler does. Its clients
 * end first.
 */
export async function startPooler(port: number): Promise<{ readonly port: number; close(): Promise<void> }> {
  let clients = 0;
  const server: Server = createServer((client) => {
    const pid = 1_000_000 + ++clients;
    const upstream = connect(port, '127.0.0.1');
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    client.pipe(upstream);
    upstream.on('data', (bytes) => client.write(renumbered(bytes, pid)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('should listen on a port');
  return {
    port: address.port,
    close: async () => {
      server.close();
      await once(server, 'close');
    },
  };
}

/** BackendKeyData: `K`, the length 12, the number of the process, a secret. */
const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);

function renumbered(bytes: Buffer, pid: number): Buffer {
  const at = bytes.indexOf(keyData);
  if (at >= 0) bytes.writeInt32BE(pid, at + keyData.length);
  return bytes;
}
