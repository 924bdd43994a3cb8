import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { Target } from '../../src/publish/target.ts';
import type { PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { startPostgres, type PrivatePostgres } from '../support/postgres.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { askDuckdbFile } from '../support/publish/read-duckdb-file.ts';
import type { Publishing } from '../support/publish/table-publisher.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hasMoreKills, repeats, startSeed } from '../support/trials.ts';
import { testProgram } from '../support/ensure-built.ts';

const program = testProgram('support/publish/table-publisher.mjs');
const dayMs = 24 * 3_600_000;

type TablePlace = Extract<PublishPlace, { readonly type: 'postgres' | 'duckdb' }>;

/** The number of the newest publication, and the members that a reader finds in the same state. */
interface Seen {
  readonly publication: number;
  readonly members: readonly string[];
}

const seenSql = (publications: string, members: string): string =>
  `SELECT (SELECT max(number) FROM ${publications}) AS publication, id || ' ' || name || ' ' || _seq AS member FROM ${members} WHERE NOT _deleted`;

function seenOf(rows: readonly Readonly<Record<string, unknown>>[]): Seen {
  return {
    publication: Number(rows[0]?.['publication'] ?? 0),
    members: rows.map(({ member }) => String(member)).toSorted(),
  };
}

let world: PublishWorld;
let server: PrivatePostgres | null = null;
let children: ChildProcess[];

beforeEach(() => {
  world = openPublishWorld();
  children = [];
});

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await server?.stop();
  server = null;
  await world[Symbol.asyncDispose]();
});

const kinds = {
  postgres: {
    place: async (): Promise<TablePlace> => {
      server = await startPostgres();
      return { type: 'postgres', connection: server.connection, schema: 'mart', deletes: 'mark' };
    },
    see: async (): Promise<Seen> => {
      const client = new pg.Client({ connectionString: server?.url });
      await client.connect();
      try {
        return seenOf((await client.query(seenSql('mart._publications', 'mart.news__members'))).rows);
      } finally {
        await client.end();
      }
    },
  },
  duckdb: {
    place: async (): Promise<TablePlace> => ({ type: 'duckdb', path: join(world.folder, 'desk.duckdb') }),
    see: async (): Promise<Seen> =>
      seenOf(
        await askDuckdbFile(join(world.folder, 'desk.duckdb'), seenSql('_publications', 'news.members')),
      ),
  },
};

function start(place: TablePlace): ChildProcess {
  const path = world.sink.type === 'sqlite' ? world.sink.path : '';
  const child = fork(program, [path, JSON.stringify(place)]);
  children.push(child);
  return child;
}

async function opened(place: TablePlace): Promise<Target> {
  const settings = { ...place, name: 'desk', keepMs: null } as PublishSettings;
  return await openTarget(settings, { clock: systemClock, signal: untilEnd });
}

async function inSink(): Promise<readonly string[]> {
  const rows = [...((await world.rows()).get('members')?.values() ?? [])];
  return rows
    .filter(({ isDeleted }) => !isDeleted)
    .map(({ values, seq }) => `${String(values[1])} ${String(values[2])} ${seq}`)
    .toSorted();
}

describe.runIf(hasMoreKills).each(['postgres', 'duckdb'] as const)(
  'a publisher into %s that dies',
  (type) => {
    const { place: makePlace, see } = kinds[type];
    // Before and after the opening, two entities, and the commit.
    const steps = [1, 2, 3, 4, 5, 6, 7, 8];

    // Proves promise 20.5
    it('at any step leaves the publication before or the whole next one, and another publisher continues', async () => {
      const place = await makePlace();
      await world.run({ upserts: [['1', 'Ada']] });
      await world.publish({}, await opened(place));
      for (const stopAt of steps) {
        const before = await see();
        await world.run({
          upserts: [
            ['1', `Bob ${stopAt}`],
            [`n${stopAt}`, 'Zoe'],
          ],
          deletes: [`n${stopAt - 1}`].filter((id) => before.members.some((one) => one.startsWith(`${id} `))),
        });
        const child = start(place);
        await once(child, 'message');
        const gone = once(child, 'exit');
        child.send({ stopAt, isNewGenerationAsked: stopAt % 2 === 0 } satisfies Publishing);
        expect(await gone).toEqual([null, 'SIGKILL']);
        const now = await see();
        const next = { publication: before.publication + 1, members: await inSink() };
        expect({ stopAt, ...now }).toEqual({
          stopAt,
          ...(now.publication === before.publication ? before : next),
        });
        expect(now.publication === before.publication + 1).toBe(stopAt === 8);
        await world.publish({}, await opened(place));
        expect((await see()).members).toEqual(await inSink());
      }
      await expectNothingLeft(place);
    }, 300_000);

    // Proves promise 20.5
    it('by kill -9 at any moment leaves readers the rows of its last publication', async () => {
      const place = await makePlace();
      const random = seededRandom(startSeed());
      const kills = repeats('KILLS', { share: 2, full: 150 });
      const states = new Map<string, readonly string[]>();
      await world.run({ upserts: [['1', 'Ada']] });
      await world.publish({}, await opened(place));
      let published = (await see()).publication;
      for (let kill = 0; kill < kills;) {
        const child = start(place);
        await once(child, 'message');
        for (let isAlive = true; isAlive;) {
          const size = 1 + Math.floor(random() * 300);
          const name = `Name ${random()}`;
          await world.run({
            upserts: Array.from({ length: size }, (_, index) => [String(index), name] as const),
          });
          const members = await inSink();
          states.set(members.join(), members);
          isAlive = random() < 0.3;
          const answer = once(child, isAlive ? 'message' : 'exit');
          child.send({ stopAt: null, isNewGenerationAsked: random() < 0.3 } satisfies Publishing);
          if (isAlive) {
            expect((await answer)[0]).toBe('published');
            expect((await see()).members).toEqual(members);
            continue;
          }
          await new Promise(
            (resolve) => void setTimeout(resolve, random() * (type === 'duckdb' ? 700 : 150)),
          );
          child.kill('SIGKILL');
          await answer;
          kill += 1;
        }
        const { publication, members } = await see();
        expect(states.has(members.join()) || publication === 1).toBe(true);
        expect(publication).toBeGreaterThanOrEqual(published);
        published = publication;
      }
      await world.publish({}, await opened(place));
      expect((await see()).members).toEqual(await inSink());
      await expectNothingLeft(place);
    }, 1_800_000);
  },
);

/** As if a day had passed since killed publishers left their files. */
async function expectNothingLeft(place: TablePlace): Promise<void> {
  await using target = await opened(place);
  if (place.type === 'duckdb') {
    const long = (Date.now() - 2 * dayMs) / 1_000;
    for (const name of readdirSync(world.folder).filter((one) => one.includes('.new-'))) {
      utimesSync(join(world.folder, name), long, long);
    }
  }
  await target.prune(null, false);
  expect(readdirSync(world.folder).filter((name) => name.includes('.new-'))).toEqual([]);
  expect((await target.check(untilEnd)).problems).toEqual([]);
}
