import { expect, it } from 'vitest';
import { openServer } from '../../../src/sql/postgres/server.ts';
import { sharedPostgres } from '../../support/postgres.ts';

it('writes again after a connection was lost before there was anything to look at', async () => {
  const { connection } = await sharedPostgres();
  const nothingHere = { host: '127.0.0.1', port: 1 };
  await using server = openServer({
    connection: { ...connection, hosts: [nothingHere, ...connection.hosts] },
    direct: null,
    schema: 'unused',
    connections: 2,
    durability: 'normal',
    explain: (error) => error,
  });
  const write = async (): Promise<unknown> =>
    await server.transact(async (tx) => await tx.rows('SELECT 1 AS one'));
  await write();
  await write();
  const looks: string[] = [];
  server.afterLoss(async ({ place }) => await Promise.resolve(looks.push(place)));
  expect(await write()).toEqual([{ one: 1 }]);
  expect(looks, 'no connection was lost since').toEqual([]);
});
