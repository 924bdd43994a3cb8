import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { SyncError, ThrottledError, type Recovery } from '../../src/core/errors.ts';
import type { JsonValue } from '../../src/core/json.ts';
import type { EntityName, ConnectorName, RunId } from '../../src/core/names.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { compileCompletePage } from '../../src/engine/complete-page.ts';
import { fileTally, type FileOptions } from '../../src/engine/run-tally.ts';
import type { Run } from '../../src/engine/run.ts';
import { fetchFiles } from '../../src/engine/sync-connector.ts';
import { probePage } from '../../src/engine/try-listing.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import type { WantedFile } from '../../src/sinks/files.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import {
  type Source,
  readRecords,
  type ListRequest,
  type SourcePage,
  type PageRecords,
} from '../../src/source/source.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';

const notes = builtInDefinition('workspace-notes');
const part = (id: string): JsonValue => ({ object: 'page', id });
const whole = (id: string): JsonValue => ({
  object: 'page',
  id,
  created_time: '2026-01-01T00:00:00.000Z',
  last_edited_time: '2026-01-01T00:00:00.000Z',
  parent: { type: 'workspace', workspace: true },
  properties: {},
});

function pageOf(...records: readonly JsonValue[]) {
  return { records: readRecords(records), next: null, serverTime: null, bytes: 1 };
}

/** Pages that are completed one after another, by what `get` answers for each id. */
function completing(answer: (id: string) => JsonValue, signal = new AbortController().signal) {
  const asked: string[] = [];
  const get: Source['get'] = async ({ params }) => {
    const id = textOf(params['page_id']);
    asked.push(id);
    return await Promise.resolve(answer(id));
  };
  const source = { get } as unknown as Source;
  const complete = compileCompletePage(entityNamed(notes, 'pages'), { source, concurrency: 1, signal });
  return {
    asked,
    complete: async (...records: readonly JsonValue[]) => {
      const { page, unanswered } = await complete({ inject: {}, params: {} }, pageOf(...records));
      return { records: [...page.records], unanswered };
    },
  };
}

const fails = (recovery: Recovery, code: 'UPSTREAM' | 'BUDGET_SPENT' = 'UPSTREAM'): never => {
  throw new SyncError('no answer', { code, recovery });
};
const many = Array.from({ length: 150 }, (_, index) => part(`p${index}`));

describe('a page with records that came in part', () => {
  it('is completed by get, each record in its place, and nothing else is asked for', async () => {
    const { complete, asked } = completing(whole);
    const other = { object: 'data_source', id: 'd1' };
    expect(await complete(whole('a'), part('b'), other, { object: 'page' }, part('c'))).toEqual({
      records: [whole('a'), whole('b'), other, { object: 'page' }, whole('c')],
      unanswered: 0,
    });
    expect(asked).toEqual(['b', 'c']);
  });

  it('stays as it came where get answers with a part, with another record or with none', async () => {
    const answers = new Map([
      ['a', part('a')],
      ['b', whole('x')],
      ['c', null],
    ]);
    const { complete } = completing((id) => answers.get(id) ?? null);
    const records = [part('a'), part('b'), part('c')];
    expect(await complete(...records)).toEqual({ records, unanswered: 0 });
  });

  it('is no longer asked about after a hundred in a row that get does not give whole', async () => {
    const { complete, asked } = completing(part);
    expect(await complete(...many)).toMatchObject({ unanswered: 0 });
    expect(await complete(part('later'))).toMatchObject({ unanswered: 0 });
    expect(asked).toHaveLength(100);
  });

  it('is no longer asked about where get refuses the entity as a whole', async () => {
    const { complete, asked } = completing(() => fails('skip-entity'));
    await complete(...many);
    expect(await complete(part('later'))).toMatchObject({ unanswered: 0 });
    expect(asked).toHaveLength(1);
  });

  it('says how many are to be asked about by a later walk where five in a row get no answer', async () => {
    const { complete, asked } = completing((id) => (id === 'p0' ? whole(id) : fails('retry')));
    expect(await complete(...many)).toMatchObject({ unanswered: 149 });
    expect(asked).toHaveLength(6);
  });

  it.each([
    ['the calls are used up', () => fails('stop', 'BUDGET_SPENT')],
    [
      'the service asks for a pause',
      (): never => {
        throw new ThrottledError('later', 600_000);
      },
    ],
  ])('keeps what was got when %s', async (_, fail) => {
    const { complete } = completing((id) => (id === 'a' ? whole(id) : fail()));
    expect(await complete(part('a'), part('b'), part('c'))).toEqual({
      records: [whole('a'), part('b'), part('c')],
      unanswered: 2,
    });
  });

  it('is given up when the run must end', async () => {
    await expect(completing(() => fails('stop')).complete(part('a'))).rejects.toThrow('no answer');
  });
});

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

const entity = 'attachments' as EntityName;
const wanted = (id: number): WantedFile => ({
  id,
  entity,
  keyText: `["a${id}"]`,
  params: {},
  version: 'v1',
  name: null,
  contentType: null,
  size: null,
});

it('ends the fetches in flight before it reports that the ledger has failed', async () => {
  let asked = 0;
  let hasEnded = false;
  const failure = new SyncError('locked', { code: 'SINK_FAILED', recovery: 'retry' });
  const files: Sink['files'] = {
    next: () => (asked++ === 0 ? Promise.resolve([wanted(1), wanted(2)]) : Promise.reject(failure)),
    stored: () => Promise.resolve(),
    setAside: () => Promise.resolve(),
    left: () => Promise.resolve([]),
    replaced: () => Promise.resolve([]),
    removed: () => Promise.resolve(),
    unknown: () => Promise.resolve([]),
  };
  let downloads = 0;
  const run = {
    sink: { files },
    lease: {
      connector: 'library' as ConnectorName,
      epoch: 1,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    id: 'r1' as RunId,
    plan: { kind: 'sync', entities: [entity] },
    files: {
      entities: new Set([entity]),
      maxBytes: 10,
      folder: {
        prepare: () => Promise.resolve([]),
        store: () => Promise.reject(failure),
        remove: () => Promise.resolve(),
        rename: () => Promise.resolve(),
      },
      source: {
        download: async (_request, _receive, signal) => {
          downloads += 1;
          if (downloads === 1) throw new SyncError('gone', { code: 'NOT_FOUND', recovery: 'skip-partition' });
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          await new Promise((resolve) => setTimeout(resolve, 20));
          hasEnded = true;
          throw signal.reason;
        },
      },
    } satisfies FileOptions,
    concurrency: 2,
    fileTally: fileTally(),
    clock: systemClock,
    onEvent: () => undefined,
    signal: new AbortController().signal,
  };
  await expect(fetchFiles(run as unknown as Run)).rejects.toBe(failure);
  expect(hasEnded).toBe(true);
});
