import { createServer, type AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { openConnections } from '../../../src/sql/postgres/connections.ts';
import { startRelay } from '../../support/forgetful-relay.ts';
import { sharedPostgres } from '../../support/postgres.ts';

it.each([1, 2])('reports a connection that breaks at its first question, with hosts: %i', async (count) => {
  const uncaught: unknown[] = [];
  const note = (error: unknown): void => void uncaught.push(error);
  process.on('uncaughtException', note);
  onTestFinished(() => void process.off('uncaughtException', note));
  const port = await startBreakingServer();
  const hosts = Array.from({ length: count }, () => ({ host: '127.0.0.1', port }));
  const connections = openConnections({
    connection: {
      hosts,
      database: 'sync',
      user: 'sync',
      password: null,
      sslmode: 'disable',
      rootCertificate: null,
    },
    direct: null,
    connections: 1,
    onLoss: () => undefined,
    explain: (error) => error,
  });
  onTestFinished(async () => await connections.end());
  const broken = /terminated|ECONNRESET/;
  await expect(
    connections.withClient(async (client) => await client.query('SELECT 1')),
    'from the pool',
  ).rejects.toThrow(broken);
  const alone = async (): Promise<unknown> => await (await connections.connect()).query('SELECT 1');
  await expect(alone(), 'beside the pool').rejects.toThrow(broken);
  expect(uncaught).toEqual([]);
});

it('replaces a connection that a firewall has forgotten, and waits for a statement that takes long', async () => {
  const server = await sharedPostgres();
  await using relay = await startRelay(server.port);
  const connections = openConnections({
    connection: { ...server.connection, hosts: [{ host: '127.0.0.1', port: relay.port }] },
    direct: null,
    connections: 1,
    onLoss: () => undefined,
    explain: (error) => error,
    silentMs: 200,
  });
  onTestFinished(async () => await connections.end());
  const ask = async (sql: string) =>
    (await connections.withClient(async (client) => await client.query(sql))).rows;
  expect(await ask('SELECT 1 AS one, pg_sleep(1)')).toMatchObject([{ one: 1 }]);
  relay.forget();
  await expect(ask('SELECT 2')).rejects.toThrow('terminated');
  expect(await ask('SELECT 3 AS three')).toEqual([{ three: 3 }]);
});

/** It lets every client in, and breaks the connection when that asks something. */
async function startBreakingServer(): Promise<number> {
  const authenticated = [0x52, 0, 0, 0, 8, 0, 0, 0, 0];
  const readyForQuery = [0x5a, 0, 0, 0, 5, 0x49];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(Buffer.from([...authenticated, ...readyForQuery]));
      socket.once('data', () => socket.destroy());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}
