import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { CliResult, RunningCli } from './run-cli.ts';

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

/** A proxy that gives clients numbers of its own for the server's processes, as a pooler does. */
export async function startPooler(port: number): Promise<PostgresProxy> {
  const proxy = await startPostgresProxy(port);
  let clients = 0;
  proxy.rule(() => {
    const pid = 1_000_000 + ++clients;
    return { ...all, fromServer: (bytes) => renumber(bytes, pid) };
  });
  return proxy;
}

/** BackendKeyData: `K`, the length 12, the number of the process, a secret. */
const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);

function renumber(bytes: Buffer, pid: number): number {
  const at = bytes.indexOf(keyData);
  if (at >= 0) bytes.writeInt32BE(pid, at + keyData.length);
  return bytes.length;
}

/** A proxy that forgets open connections, as a firewall does: their bytes go nowhere, and new ones work. */
export async function startRelay(port: number) {
  const proxy = await startPostgresProxy(port);
  let [made, forgotten] = [0, 0];
  proxy.rule(() => {
    const number = ++made;
    const pass: Passing['fromClient'] = ({ length }) =>
      number <= forgotten ? new Promise(() => undefined) : length;
    return { fromClient: pass, fromServer: pass };
  });
  return {
    port: proxy.port,
    forget: (): void => {
      forgotten = made;
    },
    [Symbol.dispose]: (): void => proxy.close(),
  };
}

/** `COMMIT` as the whole text of a query. */
export function isCommit(bytes: Buffer): boolean {
  return bytes.includes('COMMIT\0');
}

/**
 * Kills a command in front of its message of that number to the server behind the proxy, where it comes to it. Gives
 * how it ended (`code` null: killed), and how many messages came.
 */
export async function killAtMessage(
  proxy: PostgresProxy,
  running: RunningCli,
  at: number,
): Promise<CliResult & { readonly messages: number }> {
  let messages = 0;
  proxy.rule(() => ({
    fromClient: ({ length }) => {
      messages += 1;
      if (messages < at) return length;
      running.child.kill('SIGKILL');
      return 0;
    },
    fromServer: ({ length }) => length,
  }));
  const result = await running.result;
  proxy.rule(null);
  return { ...result, messages };
}
