import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ServerLimits } from './server-limits.ts';

/** `waiting`: no whole request has come over it since it was opened or since its last answer. */
interface Connection {
  readonly socket: Socket;
  /** Its IP address. */
  readonly client: string;
  state: 'waiting' | 'busy';
}

/**
 * Keeps room for new connections: at the limit of one client, or of all, the connection that has waited longest for a whole
 * request is cut, one of the client that holds the most first. So connections that send half a request, or nothing, lock out
 * neither others nor their own client. Where every connection is busy with a request, the new one is cut.
 */
export function limitConnections(
  server: Server,
  {
    maxConnections,
    maxConnectionsPerClient,
  }: Pick<ServerLimits, 'maxConnections' | 'maxConnectionsPerClient'>,
): void {
  /** By address and port, which a TLS socket shares with the one below it; in the order in which they began to wait. */
  const connections = new Map<string, Connection>();

  const changeTo = (name: string, state: Connection['state']): void => {
    const connection = connections.get(name);
    if (connection === undefined) return;
    connections.delete(name);
    connections.set(name, { ...connection, state });
  };
  const longestWaiting = (client: string): string | null => {
    for (const [name, connection] of connections) {
      if (connection.state === 'waiting' && connection.client === client) return name;
    }
    return null;
  };

  server.on('connection', (socket: Socket) => {
    const client = socket.remoteAddress ?? '';
    const name = nameOf(socket);
    const countByClient = new Map<string, number>();
    for (const { client } of connections.values()) {
      countByClient.set(client, (countByClient.get(client) ?? 0) + 1);
    }
    connections.set(name, { socket, client, state: 'waiting' });
    socket.once('close', () => {
      if (connections.get(name)?.socket === socket) connections.delete(name);
    });
    const isClientFull = (countByClient.get(client) ?? 0) >= maxConnectionsPerClient;
    if (!isClientFull && connections.size <= maxConnections) return;
    const largestFirst = [...countByClient].toSorted(([, one], [, other]) => other - one);
    const candidates = isClientFull ? [client] : largestFirst.map(([client]) => client);
    let cut = name;
    for (const candidate of candidates) {
      const waiting = longestWaiting(candidate);
      if (waiting === null) continue;
      cut = waiting;
      break;
    }
    connections.get(cut)?.socket.destroy();
    connections.delete(cut);
  });

  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const name = nameOf(request.socket);
    if (request.complete) changeTo(name, 'busy');
    else request.once('end', () => changeTo(name, 'busy'));
    response.once('close', () => changeTo(name, 'waiting'));
  });
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ''} ${remotePort ?? ''}`;
}
