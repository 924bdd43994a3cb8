import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

describe('a sink', () => {
  type Found = Readonly<Record<string, unknown>>;

  let world: CliWorld;
  let database: string;

  beforeAll(async () => {
    world = await openCliWorld({ isWhole: true });
    database = join(world.folder, 'main.db');
    await world.json('sync', 'newsletter', '--select', 'campaigns', 'list_members', 'email_activity');
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  describe('search', () => {
    it('finds what SQL finds, in the order that was asked for', async () => {
      const expected = ids(
        `SELECT id FROM newsletter__campaigns WHERE status = 'sent' AND _deleted_at IS NULL ORDER BY send_time DESC, _row`,
      );
      expect(expected.length).toBeGreaterThan(2);
      const found = await records('newsletter/campaigns', '--filter', sent, '--sort', 'send_time:desc');
      expect(found.map(({ id }) => id)).toEqual(expected);
    });

    it('pages with the cursor of the page before, and --all goes to the end', async () => {
      const search = ['search', 'newsletter/campaigns', '--sort', 'create_time:asc,id', '--limit', '3'];
      const paged: unknown[] = [];
      let cursor: string | null = null;
      let pages = 0;
      do {
        const page = await document(...search, ...(cursor === null ? [] : ['--cursor', cursor]));
        paged.push(...page.data.map(({ id }) => id));
        ({ cursor } = page.meta);
        pages += 1;
      } while (cursor !== null);
      const everything = ids('SELECT id FROM newsletter__campaigns ORDER BY create_time, id');
      expect(paged).toEqual(everything);
      expect(pages).toBe(Math.ceil(everything.length / 3));
      const all = await world.cli(...search, '--all');
      expect(jsonLines(all).map(({ id }) => id)).toEqual(everything);
      expect(all.stderr).toContain(`${everything.length} records`);
    });

    it('shows a table for people, and says how to get the next page and what had no room', async () => {
      const result = await world.cli(
        'search',
        'newsletter/campaigns',
        '--limit',
        '2',
        '--fields',
        'id,status',
      );
      expect(result.stdout).toMatch(/^id +status\n\S+ +\S+\n\S+ +\S+\n$/);
      expect(result.stderr).toMatch(/^2 records in .*; next page: the same with --cursor \S+\n$/);
    });

    it('writes members of objects, and JSON lines to the letter', async () => {
      const [record] = jsonLines(
        await world.cli('search', 'newsletter/campaigns', '--all', '--fields', 'id,settings.title'),
      );
      expect(Object.keys(record ?? {}).sort()).toEqual(['id', 'settings']);
      expect(record).toMatchObject({ settings: { title: expect.any(String) as string } });
    });

    it('takes the filter from a file and from standard input', async () => {
      writeFileSync(join(world.folder, 'filter.json'), sent);
      const fromFile = await records('newsletter/campaigns', '--filter', '@filter.json');
      const fromInput = await withInput(sent, 'search', 'newsletter/campaigns', '--filter', '-', '--json');
      expect(fromFile.length).toBeGreaterThan(0);
      expect(jsonLines(fromInput)[0]?.['data']).toEqual(fromFile);
    });

    it.each<[string, readonly string[], string]>([
      ['an unknown field', ['--filter', '{"and":[{"eq":{"statuss":"x"}}]}'], 'query.filter.and[0]'],
      ['an unknown operator', ['--filter', '{"equals":{"status":"x"}}'], 'query.filter'],
      ['a value of another type', ['--filter', '{"gt":{"emails_sent":"many"}}'], 'emails_sent'],
      ['an unknown sort field', ['--sort', 'statuss:desc'], 'query.sort[0]'],
      ['a cursor of another search', ['--cursor', 'bm90IGEgY3Vyc29y'], 'cursor'],
      ['no JSON', ['--filter', '{eq}'], '--filter: expected JSON'],
      ['another direction', ['--sort', 'id:down'], '--sort: expected <field>:asc or <field>:desc'],
      ['too large a page', ['--limit', '1001'], '--limit: expected a whole number from 1 to 1000'],
      ['a file that is not there', ['--filter', '@none.json'], 'none.json cannot be read'],
    ])('refuses %s with 2, and says where and what was expected', async (_title, flags, said) => {
      const result = await world.cli('search', 'newsletter/campaigns', ...flags);
      expect(result.code).toBe(2);
      expect(result.stderr).toContain(said);
      expect(result.stderr).toMatch(/expected|unknown|cannot be read/i);
    });

    it('says that nothing is stored yet, and that files of lines cannot be searched', async () => {
      const nothing = await world.cli('search', 'wiki/users');
      expect(nothing).toMatchObject({ code: 2 });
      expect(nothing.stderr).toContain(
        'Nothing of wiki/users is stored in sink main yet. Run "npx --no-install connector-sync sync wiki"',
      );
      await using lake = await openCliWorld({ sink: 'jsonl' });
      const lines = await lake.cli('search', 'newsletter/campaigns');
      expect(lines.code).toBe(2);
      expect(lines.stderr).toContain('expected one of type sqlite');
    });
  });

  const sent = '{"eq":{"status":"sent"}}';

  interface FoundDocument {
    readonly data: readonly Found[];
    readonly meta: { readonly has_more: boolean; readonly cursor: string | null };
  }

  /** The one document of `--json`. */
  async function document(...args: readonly string[]): Promise<FoundDocument> {
    const [found] = await world.json(...args);
    // `as`: what the command promises; the tests look at what is in it.
    return found as unknown as FoundDocument;
  }

  async function records(...args: readonly string[]): Promise<readonly Found[]> {
    return (await document('search', ...args)).data;
  }

  function ids(sql: string): readonly string[] {
    const db = new Database(database, { readonly: true });
    try {
      return (db.prepare(sql).all() as { id: string }[]).map(({ id }) => id);
    } finally {
      db.close();
    }
  }

  function withInput(stdin: string, ...args: readonly string[]): Promise<CliResult> {
    return callCli([...args, '--config', world.config], { cwd: world.folder, env: world.env, stdin });
  }
});
