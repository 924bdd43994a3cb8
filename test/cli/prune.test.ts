import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';

describe('pruning', () => {
  let world: CliWorld;

  afterEach(() => world[Symbol.asyncDispose]());

  /** A year has passed since everything was deleted or refused. */
  function ageBy(sql: readonly string[]): void {
    const db = new Database(join(world.folder, 'main.db'));
    for (const one of sql) db.exec(one);
    db.close();
  }

  /** How many versions of lists have ended. */
  function closed(): unknown {
    const db = new Database(join(world.folder, 'main.db'), { readonly: true });
    try {
      return db.prepare('SELECT count(*) FROM newsletter__lists__versions').pluck().get();
    } finally {
      db.close();
    }
  }

  const deletes = async (): Promise<number> =>
    jsonLines(await world.cli('export', 'newsletter/lists')).filter((row) => row['_op'] === 'delete').length;

  describe('prune', () => {
    // Proves promise 21.5
    it('removes deleted rows when every target has published their delete, and begins no generation', async () => {
      world = await openCliWorld({
        settings: '    include: [lists, campaigns]\n    retention: { deletedRows: 90d, quarantine: 30d }\n',
      });
      appendFileSync(
        world.config,
        'publish:\n  lake: { type: files, directory: ./lake, format: jsonl, when: by-hand }\n  second: { type: files, directory: ./second, format: csv, when: by-hand }\n',
      );
      await world.json('sync', 'newsletter');
      world.moveTo(3);
      await world.json('sync', 'newsletter', '--full', '--allow-deletes');
      const gone = await deletes();
      expect(gone).toBeGreaterThan(0);
      ageBy([
        `UPDATE newsletter__lists SET _deleted_at = '2020-01-01T00:00:00.000Z' WHERE _deleted_at IS NOT NULL`,
        `INSERT INTO _sync_quarantine (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
       VALUES ('newsletter', 'lists', 'x', 'key-missing', 'no id', '{}', '2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z', 'r')`,
      ]);
      const lists = ([first]: readonly Record<string, unknown>[]): unknown => {
        const entities = (first?.['entities'] ?? []) as readonly { readonly entity: string }[];
        return entities.find(({ entity }) => entity === 'lists');
      };
      expect(lists(await world.json('prune', 'newsletter', '--dry-run'))).toMatchObject({
        rows: 0,
        quarantined: 1,
      });
      const [first] = await world.json('publish', 'lake');
      expect(
        lists(await world.json('prune', 'newsletter', '--dry-run')),
        'one target lacks them',
      ).toMatchObject({
        rows: 0,
      });
      await world.json('publish', 'second');
      expect(lists(await world.json('prune', 'newsletter', '--dry-run'))).toMatchObject({ rows: gone });
      expect(await deletes()).toBe(gone);
      expect(lists(await world.json('prune', 'newsletter', '--allow-deletes'))).toMatchObject({
        rows: gone,
        quarantined: 1,
      });
      expect(await deletes()).toBe(0);
      await world.cli('export', 'newsletter/lists', '--next-file', 'next.json');
      const next = JSON.parse(readFileSync(join(world.folder, 'next.json'), 'utf8')) as Record<
        string,
        number
      >;
      expect(next['completeAfter']).toBeGreaterThan(1);
      expect(next['completeAfter']).toBeLessThanOrEqual(next['nextSeq'] ?? 0);
      const stale = await world.cli('export', 'newsletter/lists', '--since-seq', '1');
      expect(stale).toMatchObject({ code: 2, stderr: expect.stringContaining('retention') as string });
      const end = (await world.json('sync', 'newsletter', '--full')).at(-1);
      expect(end).toMatchObject({ report: { outcome: 'ok' } });
      expect(first).toMatchObject({ result: 'published' });
      expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
      const [status] = await world.json('publish', 'status', 'lake');
      expect(status).toMatchObject({ newGeneration: null, error: null });
    });

    it('is what a sync does by itself, once a day, but for what its guards keep', async () => {
      world = await openCliWorld({
        settings:
          '    include: [lists]\n    entities: { lists: { history: { keep: 30d }, retention: { deletedRows: 90d } } }\n',
      });
      appendFileSync(world.config, 'guards: { maxDeleteShare: 0.01, minDeleteRows: 0 }\n');
      await world.json('sync', 'newsletter');
      world.moveTo(3);
      await world.json('sync', 'newsletter', '--full', '--allow-deletes');
      ageBy([
        `UPDATE newsletter__lists SET _deleted_at = '2020-01-01T00:00:00.000Z' WHERE _deleted_at IS NOT NULL`,
      ]);
      await world.json('sync', 'newsletter');
      expect(await deletes()).toBeGreaterThan(0);
      const old = [
        'UPDATE _sync_retained SET checked_at',
        'UPDATE newsletter__lists__versions SET _valid_to',
      ];
      ageBy(old.map((update) => `${update} = '2020-01-01T00:00:00.000Z'`));
      const kept = await world.cli('sync', 'newsletter');
      const allow = 'prune newsletter --allow-deletes';
      expect(kept).toMatchObject({ code: 0, stdout: expect.stringContaining(allow) as string });
      expect((await world.cli('status', 'newsletter')).stdout).toContain(allow);
      expect(await world.cli('prune')).toMatchObject({
        code: 6,
        stdout: expect.stringMatching(
          /deleted rows are older .*\n.* versions are older than the config keeps/,
        ) as string,
      });
      expect(await deletes()).toBeGreaterThan(0);
      expect(closed()).toBeGreaterThan(0);
      writeFileSync(world.config, readFileSync(world.config, 'utf8').replace('0.01', '1'));
      ageBy([`UPDATE _sync_retained SET checked_at = '2020-01-01T00:00:00.000Z'`]);
      await world.json('sync', 'newsletter');
      expect([await deletes(), closed()]).toEqual([0, 0]);
      expect((await world.cli('status', 'newsletter')).stdout).not.toContain('prune');
    });
  });
});

describe('versions', () => {
  let world: CliWorld;

  afterEach(() => world[Symbol.asyncDispose]());

  function ask(sql: string): readonly Record<string, unknown>[] {
    const db = new Database(join(world.folder, 'main.db'), { readonly: true });
    try {
      return db.prepare<[], Record<string, unknown>>(sql).all();
    } finally {
      db.close();
    }
  }

  /** How many versions of campaigns have ended. */
  const ended = (): unknown => ask('SELECT count(*) AS n FROM newsletter__campaigns__versions')[0]?.['n'];

  async function changed(revision: number): Promise<void> {
    world.moveTo(revision);
    await world.json('sync', 'newsletter', '--full', '--allow-deletes');
  }

  describe('history', () => {
    it('is kept while the config says so, and not a sync longer', async () => {
      world = await openCliWorld({ settings: '    include: [campaigns]\n    history: { keep: 400d }\n' });
      const text = readFileSync(world.config, 'utf8');
      await world.json('sync', 'newsletter');
      await world.json('sync', 'newsletter', '--full');
      expect(ended(), 'nothing has changed').toBe(0);
      await changed(1);
      const after = ended();
      expect(after).toBeGreaterThan(0);
      writeFileSync(world.config, text.replace('    history: { keep: 400d }\n', ''));
      await changed(2);
      expect(ended()).toBe(after);
      // Without `keep` nothing is too old, whatever an earlier config had.
      writeFileSync(world.config, text.replace('{ keep: 400d }', 'true'));
      await world.json('sync', 'newsletter');
      expect(ask('SELECT ended_at FROM _sync_versions')).toEqual([{ ended_at: null }]);
      const db = new Database(join(world.folder, 'main.db'));
      db.exec(`UPDATE newsletter__campaigns__versions SET _valid_to = '2020-01-01T00:00:00.000Z'`);
      db.close();
      await world.json('prune', 'newsletter', '--allow-deletes');
      expect(ended()).toBe(after);
    });

    it('is copied into a sink that keeps versions; of another one the copy says what it does not have', async () => {
      world = await openCliWorld({ settings: '    include: [campaigns]\n    history: true\n' });
      const others =
        ', twin: { type: sqlite, path: ./twin.db }, lines: { type: jsonl, directory: ./lines } }';
      writeFileSync(
        world.config,
        readFileSync(world.config, 'utf8').replace(/^(sinks: .*) \}$/m, `$1${others}`),
      );
      await world.json('sync', 'newsletter');
      await changed(1);
      const lines = await world.cli('copy', '--from', 'main', '--to', 'lines', 'newsletter');
      expect(lines).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          /Earlier versions of rows \(history\) of campaigns(, campaigns__\w+)* are not in lines/,
        ) as string,
      });
      await world.json('copy', '--from', 'main', '--reopen', 'newsletter');
      const twin = await world.cli('copy', '--from', 'main', '--to', 'twin', 'newsletter');
      expect(twin.code, twin.stderr).toBe(0);
      expect(twin.stdout).not.toContain('Earlier versions');
    });
  });
});
