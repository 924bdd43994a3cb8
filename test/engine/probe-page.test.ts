import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { probePage } from '../../src/engine/try-listing.ts';
import { type ListRequest, type SourcePage, readRecords, type PageRecords } from '../../src/source/source.ts';
import { builtInDefinition } from '../support/sample-service.ts';

const never = new AbortController().signal;

function entityOf(definition: string, name: string): Entity {
  const entity = builtInDefinition(definition).entities.get(name as EntityName);
  if (entity === undefined) throw new Error(`expected ${name}`);
  return entity;
}

const lists = entityOf('email-marketing', 'lists');
const members = entityOf('email-marketing', 'list_members');
const pages = entityOf('workspace-notes', 'pages');
const records = (count: number): PageRecords =>
  readRecords(Array.from({ length: count }, (_none, at) => ({ id: `r${at}` })));

async function problemsOf(
  entity: Entity,
  answer: Partial<SourcePage>,
  expectsTotal = true,
): Promise<readonly string[]> {
  const list = (): Promise<SourcePage> =>
    Promise.resolve({ records: readRecords([]), next: null, serverTime: null, bytes: 0, ...answer });
  return (await probePage({ list }, entity, { variants: [{}] }, { expectsTotal, nowMs: 0, signal: never }))
    .problems;
}

describe('the first page of an entity', () => {
  it('is asked for as a first sync asks, with the first variant', async () => {
    const asked: ListRequest[] = [];
    const list = (request: ListRequest): Promise<SourcePage> => {
      asked.push(request);
      return Promise.resolve({ records: readRecords([]), next: null, total: 0, serverTime: null, bytes: 0 });
    };
    const variants = [{ email: 'a@example.com' }, {}];
    await probePage({ list }, lists, { variants }, { expectsTotal: true, nowMs: 0, signal: never });
    expect(asked).toEqual([
      {
        entity: 'lists',
        isRoot: true,
        params: {
          ...lists.fixedParams,
          ...lists.order?.params,
          email: 'a@example.com',
          offset: 0,
          count: 1000,
        },
      },
    ]);
  });

  it.each<[string, Entity, Partial<SourcePage>, readonly (string | RegExp)[]]>([
    ['all there is', lists, { records: records(3), total: 3 }, []],
    ['none', lists, { total: 0 }, []],
    ['a full page of more', lists, { records: records(1000), total: 5000 }, []],
    [
      'change values that are no times',
      members,
      {
        records: readRecords([
          { id: 'a', last_changed: '12.03.2026' },
          { id: 'b', last_changed: '2026-03-12 10:00:00 UTC' },
          { id: 'c' },
        ]),
        total: 3,
      },
      [/^1 of 3 records with a change value that is no time: an incremental read never sees them/],
    ],
    [
      'fewer than asked for',
      lists,
      { records: records(20), total: 806 },
      [/^asked for 1000 records by count, got 20 of 806/],
    ],
    [
      'more than asked for',
      lists,
      { records: records(2000), total: 5000 },
      [/^asked for 1000 records by count, got 2000: the/],
    ],
    [
      'no total',
      lists,
      { records: records(3) },
      ['the answer names no total where the definition says that it is'],
    ],
    [
      'too low a total',
      lists,
      { records: records(3), total: 2 },
      ['the answer names a total of 2, and has 3 records'],
    ],
    [
      'another array',
      lists,
      { records: readRecords([{ name: 'x' }]), total: 1 },
      ['none of the records has id, which is their key'],
    ],
    ['a short page with a token', pages, { records: records(2), next: { hasMore: true, token: 't' } }, []],
    [
      'a page too long with a token',
      pages,
      { records: records(200) },
      [/^asked for 100 records by page_size, got 200/],
    ],
  ])('with %s', async (_what, entity, answer, expected) => {
    const found = await problemsOf(entity, answer);
    expect(found).toEqual(
      expected.map((one) => (typeof one === 'string' ? one : (expect.stringMatching(one) as string))),
    );
  });

  it('may lack a total where an API stands between, which need not hand it on', async () => {
    expect(await problemsOf(lists, { records: records(3) }, false)).toEqual([]);
  });
});
