import { randomBytes } from 'node:crypto';
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { maskStored } from '../../src/app/purge-records.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { killAtMessage, startPostgresProxy } from '../support/postgres-proxy.ts';
import { foundIn, maskAll, openClearWorld } from '../support/masks/marked-world.ts';
import { askPostgres, sharedPostgres } from '../support/postgres.ts';
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { killedCopies } from '../support/sinks/killed-copies.ts';
import { hasMoreKills, isLong, repeats, startSeed, triedSinks } from '../support/trials.ts';

const mask = `    mask: { list_members: { fields: { email_address: { hash: { as: email } }, vip: hash } } }\n`;
/** In `npm test` a kill in front of one statement of so many. */
const killsAtEach = isLong ? 1 : 9;
const how = { clock: systemClock, targets: [], signal: new AbortController().signal };

/** A sink with a member that was deleted before there was a mask; its address is in clear. */
async function synced(sink: (typeof triedSinks)[number]) {
  const world = await openCliWorld({ sink, settings: sink === 'jsonl' ? '' : '    history: true\n' });
  onTestFinished(() => world[Symbol.asyncDispose]());
  appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n`);
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const emailById = new Map(
    jsonLines(await world.cli('export', 'newsletter/list_members')).map((row) => [
      row['id'],
      row['email_address'],
    ]),
  );
  world.moveTo(3);
  await world.json('sync', 'newsletter', '--select', 'list_members', '--full', '--allow-deletes');
  writeFileSync(world.config, readFileSync(world.config, 'utf8').replace('  wiki:\n', `${mask}  wiki:\n`));
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const gone = jsonLines(await world.cli('export', 'newsletter/list_members')).find(
    (row) => row['_op'] === 'delete' && emailById.has(row['id']),
  );
  const connector = loadSettings({ file: world.config, env: world.env }).connectors.get(
    'newsletter' as ConnectorName,
  );
  if (connector === undefined) throw new Error('the config has it');
  return { world, connector, email: String(emailById.get(gone?.['id'])) };
}

async function isMentioned(world: CliWorld): Promise<boolean> {
  return (await world.cli('status', 'newsletter')).stdout.includes('mask of');
}

// Proves promise 10.6
it.each(triedSinks.filter((sink) => sink !== 'postgres'))(
  'a rewrite of what is stored without its mask in a %s sink is completed by the next one after a kill at any step',
  async (sink) => {
    const { world, connector, email } = await synced(sink);
    expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
    const killed = await killedCopies(
      world.folder,
      killsAtEach,
      async () => await maskStored(connector, how),
    );
    expect(killed.length).toBeGreaterThan(3);
    for (const [at, folder] of killed.entries()) {
      expect((await maskStored(sinkIn(connector, folder), how)).left).toEqual([]);
      expect(filesWith(folder, email), `kill ${at}`).toEqual([]);
    }
    expect(await isMentioned(world)).toBe(false);
  },
  240_000,
);

function sinkIn(connector: ConnectorSettings, folder: string): ConnectorSettings {
  const { sink } = connector;
  if (sink.type === 'postgres') throw new TypeError('a server is no folder');
  const moved =
    sink.type === 'sqlite'
      ? { ...sink, path: join(folder, 'main.db') }
      : { ...sink, directory: join(folder, 'main') };
  return { ...connector, sink: moved };
}

it.each(triedSinks)('says that values are in clear until all of a %s sink is rewritten', async (sink) => {
  const { world, connector } = await synced(sink);
  const failing = new Map(
    [...connector.masks].map(([entity, { rules, mask: own }]) => {
      let calls = 0;
      const stored: typeof own.stored = (value) => {
        calls += 1;
        if (calls === 40) throw new Error('killed');
        return own.stored(value);
      };
      return [entity, { rules, mask: { ...own, stored } }];
    }),
  );
  await expect(maskStored({ ...connector, masks: failing }, how)).rejects.toThrow('killed');
  expect(await isMentioned(world)).toBe(true);
  await maskStored(connector, how);
  expect(await isMentioned(world)).toBe(false);
  await expect(maskStored({ ...connector, masks: new Map() }, how)).rejects.toThrow('has no mask');
});

const kills = repeats('KILLS', { share: 1, full: 20 });
const lake = `publish:\n  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }\n`;

/** A clear world whose masks a sync has begun to use, as often as it is asked for: each a copy. */
async function openCopies(sink: (typeof triedSinks)[number], { more = '' }: { readonly more?: string } = {}) {
  const server = sink === 'postgres' ? await sharedPostgres() : null;
  // A test's own: more than one may be there.
  const clearDatabase = `clear_${more === '' ? 'alone' : 'published'}`;
  const urlOf = (database: string): string => server?.url.replace('/postgres?', `/${database}?`) ?? '';
  const ask = async (sql: string): Promise<unknown> => await askPostgres(server?.url ?? '', sql);
  if (server !== null) await ask(`CREATE DATABASE ${clearDatabase}`);
  const sinkSettings = `{ type: postgres, url: "${urlOf(clearDatabase)}", schema: main, durability: normal }`;
  const clear = await openClearWorld(sink, {
    more,
    size: 'tiny',
    ...(server === null ? {} : { sinkSettings }),
  });
  onTestFinished(() => clear[Symbol.asyncDispose]());
  const { world, marks } = clear;
  maskAll(world);
  await world.cli('purge', 'newsletter', '--unmasked', '--yes');
  await world.cli('sync', 'newsletter');
  let made = 0;
  return {
    /** `port`: of a proxy in front of the server. */
    copy: async (port = server?.port) => {
      made += 1;
      const folder = mkdtempSync(join(tmpdir(), 'unmasked-'));
      cpSync(world.folder, folder, { recursive: true });
      const config = join(folder, 'sync.yaml');
      const database = `${clearDatabase}_${made}`;
      if (server !== null) {
        await ask(`CREATE DATABASE ${database} TEMPLATE ${clearDatabase}`);
        const own = urlOf(database).replace(`:${server.port}`, `:${String(port)}`);
        writeFileSync(config, readFileSync(config, 'utf8').replace(urlOf(clearDatabase), own));
      }
      const args = ['purge', 'newsletter', '--unmasked', '--json', '--config', config];
      const within = { cwd: folder, env: world.env };
      return {
        start: () => startCli(args, within),
        complete: () => callCli(args, within),
        /** What of the marked values is in clear. */
        clear: async () => {
          const own = { isPurged: true, database: server === null ? null : urlOf(database) };
          return [...(await foundIn({ folder }, sink, '', marks.values(), own))];
        },
        [Symbol.asyncDispose]: async () => {
          rmSync(folder, { recursive: true });
          if (server !== null) await ask(`DROP DATABASE ${database} WITH (FORCE)`);
        },
      };
    },
  };
}

// Proves promise 10.6
it.each(triedSinks)(
  `a purge of unmasked values in a %s sink is completed after a SIGKILL at any moment (${kills} kills)`,
  { timeout: 900_000 },
  async (sink) => {
    const random = seededRandom(startSeed());
    const copies = await openCopies(sink, { more: lake });
    await using whole = await copies.copy();
    expect((await whole.clear()).length).toBeGreaterThan(20);
    const began = performance.now();
    expect(await whole.start().result).toMatchObject({ code: 0 });
    const tookMs = performance.now() - began;
    expect(await whole.clear()).toEqual([]);
    const ends = new Map<string, number>();
    for (let done = 0; done < kills; done += 1) {
      await using trial = await copies.copy();
      const atMs = tookMs * (0.2 + 0.8 * random());
      const running = trial.start();
      const timer = setTimeout(() => running.child.kill('SIGKILL'), atMs);
      const { code } = await running.result;
      clearTimeout(timer);
      const left = (await trial.clear()).length;
      const end = `${code === null ? 'killed' : 'ended'} with ${left === 0 ? 'nothing' : 'something'} in clear`;
      ends.set(end, (ends.get(end) ?? 0) + 1);
      const completed = await trial.complete();
      expect(completed, `kill at ${atMs} ms`).toMatchObject({ code: 0 });
      expect(jsonLines(completed)[0]).toMatchObject({ left: [], targets: [{ problem: null }] });
      expect(await trial.clear(), `kill at ${atMs} ms`).toEqual([]);
    }
    if (isLong) console.log(sink, Object.fromEntries(ends));
  },
);

// Proves promise 10.6
it.runIf(hasMoreKills)(
  'a purge of unmasked values in a PostgreSQL sink is completed after a SIGKILL in front of any message to the server',
  { timeout: 3_600_000 },
  async () => {
    const copies = await openCopies('postgres');
    const server = await sharedPostgres();
    const proxy = await startPostgresProxy(server.port);
    onTestFinished(() => proxy.close());
    /** How many messages a purge sends that is killed in front of one of them, and whether it was. */
    const purge = async (at: number): Promise<{ readonly messages: number; readonly isKilled: boolean }> => {
      await using trial = await copies.copy(proxy.port);
      const { code, messages } = await killAtMessage(proxy, trial.start(), at);
      expect(await trial.complete(), `kill at ${at}`).toMatchObject({ code: 0 });
      expect(await trial.clear(), `kill at ${at}`).toEqual([]);
      return { messages, isKilled: code === null };
    };
    const { messages } = await purge(Infinity);
    const points = Math.min(messages, repeats('KILLS', { share: 0, full: Infinity }));
    let killed = 0;
    for (let point = 1; point <= points; point += 1) {
      // The number of messages is not always the same.
      const { isKilled } = await purge(Math.ceil((point * messages) / (points + 1)));
      if (isKilled) killed += 1;
    }
    console.log(`postgres: ${killed} kills in front of ${messages} messages`);
    expect(killed).toBeGreaterThan(points * 0.9 - 1);
  },
);
