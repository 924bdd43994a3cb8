import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { recorded } from '../support/recorded-records.ts';
import { builtInDefinition, sampleSeed } from '../support/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { type FakeMailchimp, mailchimpRoutes, startFakeMailchimp } from '../support/upstream/mailchimp.ts';
import { type FakeNotion, notionVersion, startFakeNotion } from '../support/upstream/notion.ts';
import { addKinds, type Kinds } from '../support/value-kinds.ts';

type Shape = Readonly<Record<string, string>>;
interface Answers {
  readonly mailchimp: {
    readonly lists: Readonly<Record<string, Shape>>;
    readonly root: Shape;
    readonly ping: Shape;
    readonly error: Shape;
    readonly errorHeaders: Shape;
    readonly notOnTheWire: Readonly<Record<string, readonly string[]>>;
  };
  readonly notion: {
    readonly types: Shape;
    readonly errors: Readonly<Record<string, JsonObject>>;
    readonly notOnTheWire: Readonly<Record<string, readonly string[]>>;
  } & Readonly<Record<'list' | 'me' | 'bot' | 'comment' | 'data_source' | 'page' | 'error', Shape>>;
}

/** What lies around the records in real answers: names and kinds of value. */
const answers = JSON.parse(
  readFileSync(new URL('../fixtures/upstream/answers.json', import.meta.url), 'utf8'),
) as Answers;

const open: AsyncDisposable[] = [];
let mailchimp: FakeMailchimp;
let notion: FakeNotion;

beforeAll(async () => {
  const sample = (definitionName: string) =>
    createSampleAccount({ definitionName, seed: sampleSeed, size: 'small' });
  mailchimp = await startFakeMailchimp(sample('email-marketing'));
  notion = await startFakeNotion(sample('workspace-notes'));
  open.push(mailchimp, notion);
});
afterAll(async () => {
  for (const server of open) await server[Symbol.asyncDispose]();
});

async function ask(url: string, options: RequestInit = {}) {
  const answer = await fetch(url, options);
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
}
const askMailchimp = (path: string, apiKey = mailchimp.apiKey) =>
  ask(`${mailchimp.baseUrl}${path}`, {
    headers: { authorization: `Basic ${Buffer.from(`any:${apiKey}`).toString('base64')}` },
  });
const askNotion = (path: string, body: JsonObject | null = null, token = notion.token) =>
  ask(`${notion.baseUrl}${path}`, {
    headers: {
      authorization: `Bearer ${token}`,
      'notion-version': notionVersion,
      'content-type': 'application/json',
    },
    ...(body === null ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });

/** Name -> kind of value, or `=` and the value where the expected shape names it. */
function shapeOf(body: JsonObject, expected: Shape): Shape {
  const kindOf = (value: JsonValue): string =>
    value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const isNamed = expected[name] === `=${textOf(value)}`;
      return [name, isNamed ? `=${textOf(value)}` : kindOf(value)];
    }),
  );
}
function expectShape(body: JsonObject, expected: Shape): void {
  expect(shapeOf(body, expected)).toEqual(expected);
}

/** The first values of a path's names that lead to a list with records. */
function parentsOf(definition: 'email-marketing' | 'workspace-notes', entity: string): JsonObject {
  const account = definition === 'email-marketing' ? mailchimp.account : notion.account;
  for (const { params } of sampleTruth(account, entity)) return params;
  throw new Error(`nothing under ${entity}`);
}
function pathOf(template: string, values: JsonObject): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => textOf(values[name]));
}

describe('the made-up Mailchimp', () => {
  it.each(mailchimpRoutes)('lists $entity with what lies around them in the real answer', async (route) => {
    const { body } = await askMailchimp(pathOf(route.list, parentsOf('email-marketing', route.entity)));
    expectShape(body, answers.mailchimp.lists[route.entity] ?? {});
  });

  it('answers the check calls as the real one', async () => {
    expectShape((await askMailchimp('/')).body, answers.mailchimp.root);
    expectShape((await askMailchimp('/ping')).body, answers.mailchimp.ping);
  });

  it('refuses with a problem document', async () => {
    const refusals = [await askMailchimp('/lists/none'), await askMailchimp('/lists', 'wrong-us1')];
    expect(refusals.map(({ status }) => status)).toEqual([404, 401]);
    for (const { body, headers } of refusals) {
      expectShape(body, answers.mailchimp.error);
      expect(headers.get('content-type')).toBe(answers.mailchimp.errorHeaders['content-type']);
      expect(headers.get('x-request-id')).toBe(body['instance']);
    }
  });
});

describe('the made-up Notion', () => {
  it.each(Object.entries(answers.notion.types))(
    'lists %s with what lies around them',
    async (entity, type) => {
      const { block_id: id } = parentsOf('workspace-notes', entity);
      const filter = { property: 'object', value: entity === 'pages' ? 'page' : 'data_source' };
      const { body } =
        type === 'page_or_data_source'
          ? await askNotion('/search', { filter })
          : await askNotion(
              {
                users: '/users',
                blocks: `/blocks/${textOf(id)}/children`,
                comments: `/comments?block_id=${textOf(id)}`,
              }[entity] ?? '',
            );
      // A longer list has another page.
      expectShape(
        { ...body, next_cursor: null, type: body['type'] ?? null },
        { ...answers.notion.list, [type]: 'object' },
      );
      expect(body['type']).toBe(type);
    },
  );

  it('answers the check call as the real one', async () => {
    const { body, headers } = await askNotion('/users/me');
    expectShape({ ...body, avatar_url: null }, answers.notion.me);
    expectShape(body['bot'] as JsonObject, answers.notion.bot);
    expect(headers.get('x-notion-request-id')).toBe(body['request_id']);
  });

  it.each(['page', 'data_source', 'comment'] as const)('gets a %s as the real one', async (what) => {
    const entity = `${what}s`;
    const [first] = sampleTruth(notion.account, entity);
    const { body } = await askNotion(`/${entity}/${textOf(first?.record['id'])}`);
    const nullable = { cover: null, icon: null, public_url: null };
    const shared = Object.fromEntries(Object.entries(nullable).filter(([name]) => name in body));
    expectShape(
      { ...body, ...shared },
      { ...answers.notion[what], ...(what === 'data_source' ? { icon: 'null' } : {}) },
    );
  });

  it('refuses with its own error objects', async () => {
    const expected = answers.notion.errors;
    const refusals = [
      [await askNotion('/users', null, 'ntn_wrong'), expected['/users with a wrong token']],
      [await askNotion('/invalid'), expected['/invalid']],
    ] as const;
    for (const [{ body, status, headers }, wanted] of refusals) {
      expectShape(body, answers.notion.error);
      expect({ ...body, status }).toMatchObject(wanted ?? {});
      expect(headers.get('x-notion-request-id')).toBe(body['request_id']);
    }
  });

  it('wants its version named, and knows no data source before 2025-09-03', async () => {
    const asVersion = (path: string, version: Readonly<Record<string, string>>) =>
      ask(`${notion.baseUrl}${path}`, { headers: { authorization: `Bearer ${notion.token}`, ...version } });
    const missing = await asVersion('/users/me', {});
    expect([missing.status, missing.body['code']]).toEqual([400, 'missing_version']);
    const [first] = sampleTruth(notion.account, 'data_sources');
    const old = await asVersion(`/data_sources/${textOf(first?.record['id'])}`, {
      'notion-version': '2022-06-28',
    });
    expect([old.status, old.body['code']]).toEqual([400, 'invalid_request_url']);
  });
});

describe.each(recorded.map((line) => [line.entity, line] as const))('made-up %s', (entity, line) => {
  const isMailing = line.definition === 'email-marketing';
  /** Enough to meet every kind of record, and not all of thousands. */
  const records = (): readonly JsonObject[] => {
    const found: JsonObject[] = [];
    for (const { record } of sampleTruth(isMailing ? mailchimp.account : notion.account, entity)) {
      if (found.push(record) === 200) break;
    }
    return found;
  };

  it('have every field of the recorded one, with the same kinds of value', () => {
    const kinds: Kinds = new Map();
    for (const record of records()) addKinds(kinds, '', record);
    const { request_id: _ofGet, ...listed } = line.record;
    const expected: Kinds = new Map();
    addKinds(expected, '', listed);
    const missing = [...expected].flatMap(([path, met]) =>
      [...met].filter((kind) => kinds.get(path)?.has(kind) !== true).map((kind) => `${path}: ${kind}`),
    );
    expect(missing).toEqual([]);
  });

  it('have no field that only this program adds', () => {
    const never: Readonly<Record<string, readonly string[]>> = {
      ...answers.mailchimp.notOnTheWire,
      ...answers.notion.notOnTheWire,
    };
    const parents = builtInDefinition(line.definition).entities.get(entity as never)?.recursive;
    const placed = parents === null || parents === undefined ? [] : [parents.rootField, parents.depthField];
    const absent = [...(never[entity] ?? []), ...placed];
    expect(records().filter((record) => absent.some((name) => name in record))).toEqual([]);
    expect(records().some(isJsonObject)).toBe(true);
  });
});
