import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * What becomes of the bytes of one connection, as they come: how many of them pass. Where that is not all of them, the
 * connection is cut behind those; both ends notice it.
 */
export interface Passing {
  readonly fromClient: (bytes: Buffer) => number | Promise<number>;
  readonly fromServer: (bytes: Buffer) => number | Promise<number>;
}

export type PostgresProxy = Awaited<ReturnType<typeof startPostgresProxy>>;

/** Stands between a sink and the server at this port of loopback. */
export async function startPostgresProxy(port: number) {
  const sockets = new Set<Socket>();
  let make: (() => Passing) | null = null;
  let isDark = false;
  const pass = async (from: Socket, to: Socket, passing: Passing['fromClient']): Promise<void> => {
    for await (const chunk of from) {
      const bytes = chunk as Buffer;
      const wasDark = isDark;
      const count = await passing(bytes);
      if (!wasDark) to.write(bytes.subarray(0, count));
      if (isDark) await new Promise(() => undefined);
      if (count < bytes.length) return;
    }
  };
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    const { fromClient, fromServer } = make?.() ?? all;
    const end = (): void => {
      if (isDark) return;
      client.destroy();
      upstream.end();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', end).on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    for (const way of [pass(client, upstream, fromClient), pass(upstream, client, fromServer)]) {
      way.then(end, end);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('should listen on a port');
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: address.port,
    /** From now on asked for every connection that is made; null: all passes. Those that are there are cut. */
    rule: (given: (() => Passing) | null) => {
      make = given;
      cutAll();
    },
    /**
     * Nothing passes from now on, but for what a rule that calls it still lets pass, and no end is notified:
     * connections stay open.
     */
    vanish: () => void (isDark = true),
    /** What was open is cut, and new connections pass. */
    comeBack: () => {
      isDark = false;
      make = null;
      cutAll();
    },
    close: () => {
      server.close();
      cutAll();
    },
  };
}

const all: Passing = { fromClient: ({ length }) => length, fromServer: ({ length }) => length };

/** `COMMIT` as the whole text of a query. */
export function isCommit(bytes: Buffer): boolean {
  return bytes.includes('COMMIT\0');
}
