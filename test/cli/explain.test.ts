import { afterEach, describe, expect, it } from 'vitest';
import { ApiError } from '../../src/service/api-error.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

let world: CliWorld;
const refused = new Set<unknown>();

/** The service does not let these lists be seen. */
const wrap = (account: SampleAccount): SampleAccount => ({
  get: (entity, params) => account.get(entity, params),
  list: (entity, params) => {
    if (entity === 'list_members' && refused.has(params['list_id'])) {
      throw new ApiError(403, 'You may not see this list.');
    }
    return account.list(entity, params);
  },
});

afterEach(async () => {
  refused.clear();
  await world[Symbol.asyncDispose]();
});

async function rows(target: string): Promise<readonly Record<string, unknown>[]> {
  return jsonLines(await world.cli('export', target));
}

interface Explained {
  readonly isStored: boolean;
  readonly row: Readonly<Record<string, unknown>> & { readonly partition: Readonly<Record<string, unknown>> };
  readonly reason: { readonly kind: string; readonly isMet?: boolean | null };
  readonly changedBy: { readonly kind: string; readonly run: string } | null;
  readonly text: string;
}

async function explain(target: string, row: Record<string, unknown> | undefined): Promise<Explained> {
  const names = target.endsWith('list_members') ? ['list_id', 'id'] : ['id'];
  const key = names.map((name) => `${name}=${String(row?.[name])}`);
  const [explained] = await world.json('explain', target, '--key', ...key);
  const { stdout } = await world.cli('explain', target, '--key', ...key);
  return { ...(explained as unknown as Explained), text: stdout };
}

describe.each(triedSinks)('explain over a %s sink', (sink) => {
  it('says of a record when it was first seen and last written, and that a full walk met it', async () => {
    world = await openCliWorld({ sink, settings: '    include: [lists, list_members]\n' });
    await world.cli('sync', 'newsletter');
    const [member] = await rows('newsletter/list_members');
    const explained = await explain('newsletter/list_members', member);
    expect(explained.changedBy).not.toHaveProperty('report');
    expect(explained).toMatchObject({
      isStored: true,
      reason: { kind: 'full', isMet: true },
      changedBy: { kind: 'sync', run: member?.['_run_id'] },
      row: {
        firstSeenAt: member?.['_changed_at'],
        changedAt: member?.['_changed_at'],
        deletedAt: null,
        seq: member?.['_seq'],
        missing: null,
        partition: { entity: 'list_members', mode: 'full', failure: null },
      },
    });
    expect(explained.text).toContain(
      `last_changed ${new Date(String(member?.['last_changed'])).toISOString()}`,
    );
    expect(explained.text).toContain('read its listing in full and found it');
  });

  it('says which records an incremental read asked for, and until when an unchanged one waits', async () => {
    world = await openCliWorld({ sink, settings: '    include: [lists, list_members]\n' });
    await world.cli('sync', 'newsletter');
    const before = await rows('newsletter/list_members');
    world.moveTo(1);
    await world.cli('sync', 'newsletter');
    const after = await rows('newsletter/list_members');
    const changed = after.find(({ _seq }) => Number(_seq) > Number(before.at(-1)?.['_seq']));
    const oldest = after.toSorted((left, right) =>
      String(left['last_changed']) < String(right['last_changed']) ? -1 : 1,
    )[0];
    expect(await explain('newsletter/list_members', changed)).toMatchObject({
      reason: { kind: 'incremental', isMet: true },
    });
    const explained = await explain('newsletter/list_members', oldest);
    expect(explained).toMatchObject({ reason: { kind: 'incremental', isMet: false } });
    expect(explained.text).toMatch(/is older than the sync cursor .* a full read/);
  });

  it('says that a listing was set aside, why, and that it stays due', async () => {
    world = await openCliWorld({ sink, wrap, settings: '    include: [lists, list_members]\n' });
    await world.cli('sync', 'newsletter');
    const [member] = await rows('newsletter/list_members');
    refused.add(member?.['list_id']);
    await world.cli('sync', 'newsletter');
    const explained = await explain('newsletter/list_members', member);
    expect(explained).toMatchObject({ reason: { kind: 'set-aside' }, row: { partition: { failure: {} } } });
    expect(explained.text).toMatch(/reading its listing failed .*; the next sync tries again/);
  }, 60_000);

  it('says that a page’s blocks were not read because the page has not changed', async () => {
    world = await openCliWorld({ sink });
    await world.cli('sync', 'wiki');
    await world.cli('sync', 'wiki');
    const [block] = await rows('wiki/blocks');
    const explained = await explain('wiki/blocks', block);
    expect(['marker', 'not-led-to']).toContain(explained.reason.kind);
    expect(explained.text).toContain('its listing was not read');
    // Its own columns say where it stands.
    expect(explained.row.partition['params']).toMatchObject({ block_id: block?.['page_id'] });
  });

  it('says that a record is deleted, and that another run wrote it last', async () => {
    world = await openCliWorld({ sink, settings: '    include: [lists]\n' });
    await world.cli('sync', 'newsletter');
    world.moveTo(3);
    await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
    const deleted = (await rows('newsletter/lists')).find(({ _op }) => _op === 'delete');
    const explained = await explain('newsletter/lists', deleted);
    expect(explained).toMatchObject({
      row: { deletedAt: deleted?.['_changed_at'] },
      reason: { isMet: false },
    });
    expect(explained.text).toMatch(/deleted: +yes/);
    const [other] = await rows('newsletter/lists');
    await world.cli('refetch', 'newsletter/lists', '--key', `id=${String(other?.['id'])}`);
    expect((await explain('newsletter/lists', other)).changedBy).toMatchObject({ kind: 'sync' });
  });
});

describe('explain', () => {
  it('ends with 3 for a key that is not stored, and with 2 for what is no key', async () => {
    world = await openCliWorld({ settings: '    include: [lists]\n' });
    const before = await world.cli('explain', 'newsletter/lists', '--key', 'id=x');
    expect(before).toMatchObject({ code: 3, stdout: expect.stringContaining('is not stored') as string });
    await world.cli('sync', 'newsletter');
    const unknown = await world.cli('explain', 'newsletter/lists', '--key', 'id=x', '--json');
    expect(unknown.code).toBe(3);
    expect(jsonLines(unknown)).toEqual([{ target: 'newsletter/lists', key: '["x"]', isStored: false }]);
    const wrong = await world.cli('explain', 'newsletter/lists', '--key', 'name=x');
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('known by id') as string });
  });

  it('prints what came from outside as inert text', async () => {
    world = await openCliWorld({ settings: '    include: [lists]\n' });
    await world.cli('sync', 'newsletter');
    const result = await world.cli('explain', 'newsletter/lists', '--key', 'id=\u001b[31m');
    expect(result.stdout).not.toContain('\u001b');
  });
});
