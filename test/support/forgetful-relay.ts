import { connect, createServer, type Socket } from 'node:net';
import { listen } from './listen.ts';

/** Passes connections on to a port of this machine, until it forgets those that there are, as a firewall does. */
export async function startRelay(to: number) {
  const pairs: (readonly [Socket, Socket])[] = [];
  const server = createServer((near) => {
    const far = connect(to, '127.0.0.1');
    pairs.push([near, far]);
    near.pipe(far);
    far.pipe(near);
    for (const socket of [near, far]) socket.on('error', () => undefined);
  });
  const { port, close } = await listen(server);
  return {
    port,
    /** Bytes of the connections so far go nowhere from now on; new ones work. */
    forget: (): void => {
      for (const [near, far] of pairs) {
        near.unpipe(far);
        far.unpipe(near);
        for (const socket of [near, far]) socket.resume();
      }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const socket of pairs.flat()) socket.destroy();
      await close();
    },
  };
}
