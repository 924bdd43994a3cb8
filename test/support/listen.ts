import type { AddressInfo, Server, Socket } from 'node:net';

/** A server, also one of HTTP, on a free port of this machine. Closing it cuts what is open. */
export async function listen(server: Server) {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    // What breaks off in a test is meant to.
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // `as`: a TCP server's address is never a pipe's name.
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  const host = `127.0.0.1:${port}`;
  return { port, host, origin: `http://${host}`, openSockets: () => sockets.size, close };
}

/** Resolves `arrived` when `all` has so many; `check` is called behind each that is added. */
export function countArrivals(all: readonly unknown[]) {
  const waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  return {
    check: (): void => {
      for (const { count, resolve } of waiting) if (all.length >= count) resolve();
    },
    arrived: async (count: number): Promise<void> => {
      if (all.length < count) await new Promise<void>((resolve) => waiting.push({ count, resolve }));
    },
  };
}
