import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { file, openFileWorld } from '../support/file-world.ts';
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** A member of the sample account. */
async function aMember(): Promise<{ readonly list: string; readonly id: string; readonly email: string }> {
  const [first] = jsonLines(await world.cli('export', 'newsletter/list_members'));
  return {
    list: String(first?.['list_id']),
    id: String(first?.['id']),
    email: String(first?.['email_address']),
  };
}

describe('purge', () => {
  // Proves promise 21, 21.1
  it.each(['sqlite', 'jsonl'] as const)(
    'leaves no byte of a person in the files of a %s sink, and keeps the person away',
    async (sink) => {
      world = await openCliWorld({ sink });
      await world.json('sync', 'newsletter');
      const { email } = await aMember();
      expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
      const where = JSON.stringify({ eq: { email_address: email } });
      const purge = ['purge', 'newsletter', '--where', where];
      const [look] = await world.json(...purge, '--dry-run');
      const [done] = await world.json(...purge);
      const report = done as Record<string, unknown>;
      expect(look).toMatchObject({ entities: report['entities'], notAsked: report['notAsked'] });
      const entities = (of: string): readonly string[] =>
        (report[of] as { readonly entity: string; readonly rows?: number }[]).flatMap(
          ({ entity, rows = 1 }) => (rows > 0 ? [entity] : []),
        );
      expect(entities('entities')).toEqual(
        expect.arrayContaining([
          'list_members',
          'segment_members',
          'email_activity',
          'email_activity_events',
        ]),
      );
      expect(entities('notAsked')).toEqual(expect.arrayContaining(['lists', 'campaigns']));
      expect(filesWith(world.folder, email)).toEqual([]);
      const end = (await world.json('sync', 'newsletter', '--full')).at(-1);
      expect(end).toMatchObject({ report: { outcome: 'ok' } });
      expect(filesWith(world.folder, email)).toEqual([]);
      expect((await world.cli('audit', 'newsletter/list_members')).code).toBe(0);
    },
    120_000,
  );

  it('shows what it would remove, then removes it with a report that names no record, and explains it later', async () => {
    world = await openCliWorld();
    await world.json('sync', 'newsletter', '--select', 'list_members');
    const { list, id, email } = await aMember();
    const key = ['--key', `list_id=${list}`, '--key', `id=${id}`];
    const path = ['--key', `list_members/${list}/${id}`];
    const [look] = await world.json('purge', 'newsletter', ...path, '--dry-run');
    expect(look).toMatchObject({ isDone: false, records: 1 });
    expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter/list_members', ...key);
    const removed = [expect.objectContaining({ entity: 'list_members', rows: 1 })] as unknown[];
    expect(done).toMatchObject({
      isDone: true,
      records: 1,
      entities: expect.arrayContaining(removed) as unknown,
      left: [],
    });
    for (const value of [email, id]) expect(JSON.stringify(done)).not.toContain(value);
    const explained = await world.cli('explain', 'newsletter/list_members', ...path);
    expect(explained).toMatchObject({ code: 0, stdout: expect.stringContaining('was purged at') as string });
  });

  // Proves promise 21.4
  it.each(triedSinks)(
    'is refused while a sync runs into a %s sink, which ends as without it',
    async (sink) => {
      let onListed: () => void = () => undefined;
      world = await openCliWorld({
        sink,
        wrap: (account) => ({
          ...account,
          list: (entity, params) => {
            if (entity === 'list_members') onListed();
            return account.list(entity, params);
          },
        }),
      });
      await world.json('sync', 'newsletter', '--select', 'list_members');
      const before = (await world.cli('export', 'newsletter/list_members')).stdout;
      const { list, id, email } = await aMember();
      const purge = ['purge', 'newsletter', '--key', `list_members/${list}/${id}`];
      const listed = new Promise<void>((resolve) => (onListed = resolve));
      const sync = startCli(
        ['sync', 'newsletter', '--select', 'list_members', '--full', '--config', world.config],
        {
          cwd: world.folder,
          env: world.env,
        },
      );
      await listed;
      sync.child.kill('SIGSTOP');
      const refused = await world.cli(...purge);
      sync.child.kill('SIGCONT');
      expect(refused).toMatchObject({
        code: 5,
        stderr: expect.stringMatching(/held by process \d+ .*Wait for that run to end/) as string,
      });
      expect((await sync.result).code).toBe(0);
      expect((await world.cli('export', 'newsletter/list_members')).stdout).toBe(before);
      await world.json(...purge);
      await world.json('sync', 'newsletter', '--select', 'list_members', '--full');
      expect((await world.cli('export', 'newsletter/list_members')).stdout).not.toContain(email);
    },
  );

  // Proves promise 21.1
  it('removes downloaded files of what lies below a record, and fetches none again', async () => {
    world = await openCliWorld();
    await using library = await openFileWorld();
    library.files.set('a1', file('the letter of ann')).set('a2', file('another letter of ann'));
    const config = join(library.folder, 'sync.yaml');
    writeFileSync(
      config,
      `api: { baseUrl: "${library.server.baseUrl}", clientId: me, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  library: { definition: document-library, id: c1, sink: main, downloads: { directory: ./files } }
`,
    );
    const cli = (...args: readonly string[]) =>
      callCli([...args, '--json', '--config', config], { cwd: library.folder, env: { SECRET: 'hush-hush' } });
    expect((await cli('sync', 'library')).code).toBe(0);
    expect(filesWith(library.folder, 'letter of ann')).toHaveLength(2);
    const purged = await cli('purge', 'library', '--key', 'documents/d1');
    expect(purged.code, purged.stderr).toBe(0);
    expect(jsonLines(purged)[0]).toMatchObject({
      entities: expect.arrayContaining([
        expect.objectContaining({ entity: 'attachments', rows: 2, files: 2 }),
      ]) as unknown,
    });
    expect(filesWith(library.folder, 'letter of ann')).toEqual([]);
    expect((await cli('sync', 'library', '--full')).code).toBe(0);
    expect(filesWith(library.folder, 'letter of ann')).toEqual([]);
    expect(library.asked()).toHaveLength(2);
  });

  // Proves promise 21.1
  it('removes refused records by a condition, and all of an entity', async () => {
    const mail = (name: string): string => `${name}@erase.example`;
    const refused = [{ email_address: mail('ann') }, { id: { a: 1 }, email_address: mail('bob') }];
    world = await openCliWorld({
      settings: '    include: [lists, list_members]\n',
      wrap: (account) => ({
        ...account,
        list: (entity, params) => {
          const listing = account.list(entity, params);
          if (entity !== 'list_members') return listing;
          return { ...listing, slice: (from, limit) => [...listing.slice(from, limit), ...refused] };
        },
      }),
    });
    await world.cli('sync', 'newsletter');
    const held = (): readonly string[] =>
      ['ann', 'bob'].filter((name) => filesWith(world.folder, mail(name)).length > 0);
    const members = 'newsletter/list_members';
    expect(held()).toEqual(['ann', 'bob']);
    const [dry] = await world.json('purge', members, '--quarantine', '--dry-run');
    expect(dry).toMatchObject({ entities: [{ rows: 0, quarantined: 2 }] });
    await world.json('purge', members, '--where', JSON.stringify({ eq: { email_address: mail('ann') } }));
    expect(held()).toEqual(['bob']);
    await world.json('purge', members, '--quarantine');
    expect(held()).toEqual([]);
    await world.cli('sync', 'newsletter', '--full');
    expect(held()).toEqual([]);
  });

  it('says what was expected instead of a choice that it cannot take', async () => {
    world = await openCliWorld();
    const all = await world.cli('purge', 'newsletter', '--where', '{}');
    expect(all).toMatchObject({ code: 2, stderr: expect.stringContaining('finds every record') as string });
    const none = await world.cli('purge', 'newsletter/lists');
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('--where') as string });
    const short = await world.cli('purge', 'newsletter', '--key', 'list_members/a1');
    expect(short).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'expected list_members/<list_id>/<id>, got "list_members/a1"',
      ) as string,
    });
    const empty = await world.cli('purge', 'newsletter/lists', '--key', 'id=a1');
    expect(empty).toMatchObject({ code: 2, stderr: expect.stringContaining('holds nothing') as string });
  });
});
