import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

const schema = 'copied';
let world: CliWorld;
let server: pg.Client;
/** The same config with the newsletter in PostgreSQL. */
let moved: string;

beforeAll(async () => {
  const { url } = await sharedPostgres();
  server = new pg.Client({ connectionString: url });
  await server.connect();
  world = await openCliWorld({
    size: { members: 220 },
    sinkSettings: `{ type: sqlite, path: ./main.db, durability: normal }
  pg: { type: postgres, url: "${url}", schema: ${schema}, durability: normal }
  lines: { type: jsonl, directory: ./lines }`,
    settings: '    include: [lists, list_members, campaigns, reports, email_activity, unsubscribes]\n',
  });
  const written = readFileSync(world.config, 'utf8').replace('sinks: { main:', 'sinks:\n  main:');
  // The world writes its sinks as a map in one line.
  const text = written.replace('directory: ./lines } }', 'directory: ./lines }');
  writeFileSync(world.config, text);
  moved = join(world.folder, 'moved.yaml');
  writeFileSync(moved, text.replace('sink: main', 'sink: pg'));
  expect((await cli(['sync'])).code).toBe(0);
  world.moveTo(1);
  expect((await cli(['sync', 'newsletter', '--full', '--allow-deletes'])).code).toBe(0);
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await server.end();
});

async function cli(args: readonly string[], config = world.config): Promise<CliResult> {
  return await callCli([...args, '--config', config], { cwd: world.folder, env: world.env });
}

const copy = ['copy', '--from', 'main', '--to', 'pg', 'newsletter'];

/** A copy in a process of its own, killed while one of its transactions has written this row and waits. */
async function killAt(table: string, when: string): Promise<void> {
  const name = `${schema}."${table}"`;
  await server.query(`CREATE OR REPLACE FUNCTION ${schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF ${when} THEN PERFORM pg_catalog.pg_advisory_xact_lock(42); END IF; RETURN NEW; END $$;
    CREATE TRIGGER waiting AFTER INSERT OR UPDATE ON ${name} FOR EACH ROW EXECUTE FUNCTION ${schema}.wait();
    SELECT pg_advisory_lock(42)`);
  await killWhen(copy, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted");
  await server.query('SELECT pg_advisory_unlock(42)');
  await server.query(`DROP TRIGGER waiting ON ${name}`);
}

/** The command in a process of its own, killed once this statement finds a row. */
async function killWhen(args: readonly string[], found: string): Promise<void> {
  const running = startCli([...args, '--config', world.config], { cwd: world.folder, env: world.env });
  for (let isThere = false; !isThere;) {
    isThere = (await server.query(found)).rows.length > 0;
    if (running.child.exitCode !== null) throw new Error(`it ended: ${JSON.stringify(running.output())}`);
  }
  running.child.kill('SIGKILL');
  await running.result;
}

describe('connector-sync copy', () => {
  it('names what it cannot do, and changes nothing', async () => {
    const refused: readonly (readonly [readonly string[], string])[] = [
      [['copy', '--from', 'main'], '--to: expected the name of a sink'],
      [
        ['copy', '--from', 'main', '--to', 'nowhere'],
        'the config has no sink "nowhere"; it has main, pg, lines',
      ],
      [['copy', '--from', 'main', '--to', 'main', 'wiki'], '--from and --to both name sink main'],
      [['copy', '--from', 'pg', '--to', 'main', 'wiki'], 'Sink pg is empty'],
      [['copy', '--from', 'pg', '--to', 'main'], 'No connector of the config has "sink: pg"'],
      [['copy', '--to', 'pg', '--discard'], 'name the connectors'],
      [['copy', '--from', 'main', '--reopen'], 'name the connectors'],
    ];
    for (const [args, says] of refused) {
      const { code, stderr } = await cli(args);
      expect({ args, code, stderr }).toEqual({
        args,
        code: 2,
        stderr: expect.stringContaining(says) as string,
      });
    }
    const { rows } = await server.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
    expect(rows).toEqual([]);
  });

  // Proves promise 1.3
  it('resumes after SIGKILL in any step, refuses everything else meanwhile, and the next sync writes nothing', async () => {
    // Makes the sink.
    expect((await cli(['copy', '--from', 'main', '--to', 'pg', 'wiki'])).stdout).toContain(
      'wiki: copied from main to pg',
    );
    const all: readonly (readonly [step: string, table: string, when: string])[] = [
      ['begin', '_sync_copies', 'NEW.done = 0'],
      ['second table', '_sync_copies', 'NEW.done = 1'],
      // Each transaction of the holder counts itself.
      ['more records', '_sync_counters', `(SELECT count(*) FROM ${schema}.newsletter__list_members) > 150`],
      ['sync state', '_sync_partitions', "NEW.connector = 'newsletter'"],
      ['finish', '_sync_copies', 'NEW.finished_at IS NOT NULL'],
    ];
    const steps = isLong ? all : all.filter(([step]) => step !== 'begin');
    for (const [step, table, when] of steps) {
      await killAt(table, when);
      if (step !== 'sync state') continue;
      for (const args of [
        ['sync', 'newsletter'],
        ['export', 'newsletter/lists'],
        ['reset', 'newsletter', '--yes'],
      ]) {
        const { code, stderr } = await cli(args, moved);
        expect({ args, code, stderr }).toEqual({
          args,
          code: 2,
          stderr: expect.stringContaining('holds only a part of connector "newsletter"') as string,
        });
      }
      expect((await cli(['status', 'newsletter'], moved)).stdout).toContain('not usable yet (sink pg)');
      const isHere = '! copy of newsletter: Sink pg holds only a part of connector "newsletter"';
      const checked = await cli(['check']);
      expect(checked).toMatchObject({ code: 2, stdout: containing(isHere) });
      // The other connector was copied, and is still to be synced into the sink that it has left.
      expect(checked.stdout).toContain(
        '✗ copy of wiki: Connector "wiki" was copied from sink main to sink pg',
      );
      const wrong = isHere.replace('!', '✗');
      expect(await cli(['check'], moved)).toMatchObject({ code: 2, stdout: containing(wrong) });
    }
    const [done] = jsonLines(await cli([...copy, '--json']));
    expect(done).toMatchObject({
      kind: 'copy',
      state: 'resumed',
      sinkInConfig: 'main',
    });
    const ended = await cli(copy);
    expect(ended).toMatchObject({ code: 0 });
    expect(ended.stdout).toContain('set "sink: pg" for newsletter in the config');

    const before = await exported(world.config);
    expect(await exported(moved)).toEqual(before);
    const report = jsonLines(await cli(['sync', 'newsletter', '--json'], moved)).at(-1)?.['report'];
    const { outcome, entities } = report as {
      readonly outcome: string;
      readonly entities: readonly { readonly counts: Readonly<Record<string, number>> }[];
    };
    expect(outcome).toBe('ok');
    expect(entities.length).toBeGreaterThan(5);
    for (const { counts } of entities) expect(counts).toMatchObject({ inserted: 0, updated: 0 });
    expect(await exported(moved)).toEqual(before);
  }, 120_000);
});

const containing = (text: string): string => expect.stringContaining(text) as string;

type Exported = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;

/** Every entity as a consumer reads it, deletes and change numbers included. */
async function exported(config: string): Promise<Exported> {
  const found: Record<string, readonly Readonly<Record<string, unknown>>[]> = {};
  for (const entity of ['lists', 'list_members', 'campaigns', 'email_activity', 'unsubscribes']) {
    found[entity] = jsonLines(await cli(['export', `newsletter/${entity}`], config));
  }
  return found;
}
