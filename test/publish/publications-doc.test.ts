import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readPublication } from '../../docs/examples/read-publications.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { manifestJsonSchema } from '../../src/publish/manifest.ts';
import { type FileFormat, ownColumns } from '../../src/publish/row-files.ts';
import { members, opens } from '../contracts/sink/fixture.ts';
import { openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { isLong } from '../support/trials.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';

const run = promisify(execFile);
const python = await run('python3', ['--version']).then(
  () => 'python3',
  () => null,
);
const document = readFileSync('docs/publications.md', 'utf8');

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe('config/publication-1.schema.json', () => {
  it('is the schema of what is written and read', () => {
    // Made by: node --import tsx -e "import('./src/publish/manifest.ts').then((m) =>
    // console.log(JSON.stringify(m.manifestJsonSchema())))"
    const shipped: unknown = JSON.parse(readFileSync('config/publication-1.schema.json', 'utf8'));
    expect(shipped).toEqual(manifestJsonSchema());
  });

  // Proves promise 20.3
  it('has no member and no column that docs/publications.md does not explain', () => {
    const names = [...memberNames(manifestJsonSchema()), ...ownColumns];
    expect(names.length).toBeGreaterThan(30);
    expect(names.filter((name) => !document.includes(`\`${name}\``))).toEqual([]);
  });
});

describe('the readers of docs/examples', () => {
  // Proves promise 20.3
  it.skipIf(python === null)('in Python finds the rows of every publication in JSON Lines', async () => {
    await publishHistory('jsonl');
    const read = async (entity: string, number: number): Promise<Shown> =>
      await printed(python ?? '', ['docs/examples/read_publications.py', world.lake, entity, String(number)]);
    await expectHistory(read);
    // A file that is damaged is named; where one is gone the reader begins again, and then says so.
    const entity = lakeManifests(world.lake)
      .at(-1)
      ?.entities.find((one) => one.entity === members);
    const file = `${world.lake}/${entity?.files[0]?.path}`;
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace('Dora', 'Nora'));
    const args = ['docs/examples/read_publications.py', world.lake, `news/${members}`];
    await expect(run(python ?? '', args)).rejects.toThrow(/is damaged: its SHA-256/);
    rmSync(file);
    await expect(run(python ?? '', args)).rejects.toThrow(/is gone: read again later/);
  });

  // Proves promise 20.3
  it('in TypeScript finds the rows of every publication in Parquet', async () => {
    await publishHistory('parquet');
    await expectHistory(async (entity, number) => shown(await readPublication(world.lake, entity, number)));
    if (!isLong) return;
    const args = ['--import', 'tsx', 'docs/examples/read-publications.ts', world.lake, `news/${members}`];
    expect(await printed(process.execPath, args)).toEqual(history.get(6)?.[members]);
  });
});

/** By `_seq`: the text of a row, and when it was stored. */
type Shown = Readonly<Record<number, readonly [text: unknown, at: Date]>>;

/** What the sink had at each publication. */
const history: Map<number, Readonly<Record<string, Shown>>> = new Map();

/** Changes, deletes, a snapshot, a new generation, and changes after each. */
async function publishHistory(format: FileFormat): Promise<void> {
  history.clear();
  const publish = async (request: Parameters<PublishWorld['publish']>[0] = {}): Promise<void> => {
    await using target = world.target(format);
    const end = await world.publish(request, target);
    if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
    const rows = await world.rows();
    const live = [...rows].map(([entity, byKey]): [string, Shown] => {
      const columns = world.tables.find((table) => table.entity === entity)?.columns ?? [];
      const text = columns.findIndex(({ name }) => name === 'name' || name === 'at');
      const alive = [...byKey.values()].filter(({ isDeleted }) => !isDeleted);
      return [
        entity,
        Object.fromEntries(
          alive.map(({ seq, values, changedAt }) => [seq, [values[text], new Date(changedAt)]]),
        ),
      ];
    });
    history.set(end.published.manifest.publication, Object.fromEntries(live));
  };
  await world.run({ upserts: ['1', '2', '3', '4'].map((id) => [id, `Ada ${id}`] as const) });
  await publish();
  await world.run({ upserts: [['2', 'Bea "quoted", \u2028 \u{1f600}']], deletes: ['3'] });
  await publish();
  await world.run({ upserts: [['3', 'back']], deletes: ['1'] });
  await publish({ isSnapshotAsked: true });
  await world.run({ upserts: [['5', 'Cy']], deletes: ['4'] });
  await publish();
  await publish({ isNewGenerationAsked: true });
  await world.run({ upserts: [['5', 'Dora']], deletes: ['2'] });
  await publish();
}

/** The newest publication of each way to begin: the first, after a snapshot, after a new generation. */
async function expectHistory(read: (entity: string, number: number) => Promise<Shown>): Promise<void> {
  for (const number of [2, 4, 6]) {
    for (const entity of number === 6 ? [members, opens] : [members]) {
      expect({ number, rows: await read(`news/${entity}`, number) }).toEqual({
        number,
        rows: history.get(number)?.[entity],
      });
    }
  }
}

async function printed(command: string, args: readonly string[]): Promise<Shown> {
  const { stdout } = await run(command, args);
  const lines = stdout.split('\n').slice(0, -1);
  return shown(lines.map((line) => JSON.parse(line) as JsonObject));
}

/** Of rows as readers find them. */
function shown(rows: readonly Readonly<Record<string, unknown>>[]): Shown {
  return Object.fromEntries(
    rows.map(({ _seq: seq, _changed_at: at, ...row }) => [
      Number(seq),
      [row['name'] ?? row['at'], new Date(at as string)],
    ]),
  );
}

function memberNames(schema: unknown): readonly string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]: [string, unknown]) =>
    key === 'properties' && typeof value === 'object' && value !== null
      ? [...Object.keys(value), ...Object.values(value).flatMap(memberNames)]
      : memberNames(value),
  );
}
