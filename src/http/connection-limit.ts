import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface ConnectionLimits {
  /** Limit for all clients together. */
  readonly maxConnections: number;
  /** Limit for one client address. */
  readonly maxConnectionsPerClient: number;
  /** Where each connection is busy, the one that has been so for the longest is cut; else the new one is. */
  readonly cutsBusy?: boolean;
}

/** `waiting`: no whole request has come over it since it was opened or since its last answer. */
interface Connection {
  readonly socket: Socket;
  /** Its IP address. */
  readonly client: string;
  state: 'waiting' | 'busy';
}

/**
 * Keeps room for new connections: at the limit of one client, or of all, the connection that has waited longest for a
 * whole request is cut, one of the client that holds the most first. So connections that send half a request, or
 * nothing, lock out neither others nor their own client.
 */
export function limitConnections(
  server: Server,
  { maxConnections, maxConnectionsPerClient, cutsBusy = false }: ConnectionLimits,
): void {
  /**
   * Connections by address and port, which a TLS socket shares with the one below it; in the order in which they began
   * to wait.
   */
  const connections = new Map<string, Connection>();

  const changeTo = (name: string, state: Connection['state']): void => {
    const connection = connections.get(name);
    if (connection === undefined) return;
    connections.delete(name);
    connections.set(name, { ...connection, state });
  };

  server.on('connection', (socket: Socket) => {
    const client = socket.remoteAddress ?? '';
    const name = nameOf(socket);
    const countByClient = new Map<string, number>();
    const countOf = (client: string): number => countByClient.get(client) ?? 0;
    for (const { client } of connections.values()) countByClient.set(client, countOf(client) + 1);
    connections.set(name, { socket, client, state: 'waiting' });
    socket.once('close', () => {
      if (connections.get(name)?.socket === socket) connections.delete(name);
    });
    const isClientFull = countOf(client) >= maxConnectionsPerClient;
    if (!isClientFull && connections.size <= maxConnections) return;
    const others = [...connections]
      .filter(([other, one]) => other !== name && (!isClientFull || one.client === client))
      .toSorted(([, one], [, other]) => countOf(other.client) - countOf(one.client));
    const isWaiting = ([, one]: (typeof others)[number]): boolean => one.state === 'waiting';
    const [cut] = others.find(isWaiting) ?? (cutsBusy ? others[0] : undefined) ?? [name];
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
