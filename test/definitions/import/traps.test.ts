import { describe, expect } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { outcomeText } from '../../../src/definitions/import/report.ts';
import { it } from '../../support/it.ts';
import {
  bearer,
  importListing,
  importText,
  outcomeOf,
  serviceText,
  writtenIn,
  type Listing,
} from '../../support/import/miniature.ts';
import { cursor, integer, onePage, traps } from '../../support/import/traps.ts';

describe('a trap', () => {
  it.for(traps)('%s is not read wrong', ([, listing, mode, expected], { folder }) => {
    expect(outcomeOf(importListing(folder, listing, mode))).toMatch(expected);
  });

  it('of two listings with one request refuses both', ({ folder }) => {
    const params = { kind: { schema: { type: 'string', default: 'page' } } };
    const override = { 'x-airbyte-path-override': { path: '/search' } };
    const one: Listing = { path: '/search:a', params, more: { ...onePage, ...override } };
    const twice = serviceText({ listings: { things: one, others: { ...one, path: '/search:b' } } });
    const imported = importText(folder, twice, 'direct');
    expect(outcomeOf(imported)).toMatch(/^refused: its request is that of others/);
    expect(outcomeOf(imported, 'others')).toMatch(/^refused: its request is that of things/);
  });

  it('of a place in the path that a person answers for fills it', ({ folder }) => {
    const params = { shop: { in: 'path', required: true, schema: { type: 'string' } } };
    const text = serviceText({
      listings: { things: { path: '/shops/{shop}/things', params, more: onePage } },
    });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(/^asked: value/);
    expect(writtenIn(importText(folder, text, 'direct', { values: { shop: 'corner' } }))).toMatchObject({
      entities: {
        things: {
          actions: { list: { params: { shop: { type: 'string', required: true } } } },
          fixedParams: { shop: 'corner' },
        },
      },
    });
  });

  it('of a default deep in a body that separates two listings keeps the default', ({ folder }) => {
    const search = (path: string, value: string): Listing => ({
      path,
      method: 'post',
      more: {
        ...onePage,
        'x-airbyte-path-override': { path: '/search' },
        requestBody: {
          content: {
            'application/json': {
              schema: {
                properties: {
                  filter: { type: 'object', properties: { value: { type: 'string', default: value } } },
                },
              },
            },
          },
        },
      },
    });
    const text = serviceText({
      listings: { pages: search('/search:p', 'page'), sources: search('/search:s', 'source') },
    });
    const imported = importText(folder, text, 'direct');
    expect(writtenIn(imported)).toMatchObject({
      entities: {
        pages: { fixedParams: { filter: { value: 'page' } } },
        sources: { fixedParams: { filter: { value: 'source' } } },
      },
    });
  });

  it('of a path parameter with the name of the own id gives the parent another column', ({ folder }) => {
    const text = serviceText({
      listings: {
        issues: { more: onePage, get: true },
        messages: { path: '/issues/{id}/messages', more: onePage },
      },
    });
    expect(writtenIn(importText(folder, text, 'direct'))).toMatchObject({
      entities: {
        messages: { key: ['issue_id', 'id'], parents: [{ entity: 'issues', inject: { issue_id: 'id' } }] },
      },
    });
  });

  it('of a parameter that would hide every free column is refused', ({ folder }) => {
    const record = { id: { type: 'string' }, issue_id: { type: 'object' } };
    const text = serviceText({
      listings: {
        issues: { more: onePage },
        messages: { path: '/issues/{id}/messages', record, more: onePage },
      },
    });
    expect(outcomeOf(importText(folder, text, 'direct'), 'messages')).toMatch(
      /^refused: the parameter id would hide/,
    );
  });

  it('of two parents that know nothing of each other is refused', ({ folder }) => {
    const text = serviceText({
      listings: {
        users: { more: onePage },
        teams: { more: onePage },
        things: {
          path: '/users/{user}/things',
          params: { team: { required: true, schema: { type: 'string' } } },
          more: onePage,
        },
      },
      info: {
        'x-airbyte-entity-relationships': [
          { source_entity: 'things', target_entity: 'users', foreign_key: 'user', target_key: 'id' },
          { source_entity: 'things', target_entity: 'teams', foreign_key: 'team', target_key: 'id' },
        ],
      },
    });
    expect(outcomeOf(importText(folder, text, 'hosted'))).toMatch(/^refused: it has two independent parents/);
  });

  it('of parents in a circle is refused, whichever comes first', ({ folder }) => {
    const link = (child: string, parent: string) => ({
      source_entity: child,
      target_entity: parent,
      foreign_key: 'above',
      target_key: 'id',
    });
    const params = { above: { required: true, schema: { type: 'string' } } };
    const text = serviceText({
      listings: { things: { params, more: onePage }, others: { params, more: onePage } },
      info: { 'x-airbyte-entity-relationships': [link('things', 'others'), link('others', 'things')] },
    });
    const imported = importText(folder, text, 'hosted');
    expect(outcomeOf(imported)).toMatch(/^refused: .*form a cycle/);
    expect(outcomeOf(imported, 'others')).toMatch(/^refused: /);
  });

  it('of a size above the cap asks for the cap', ({ folder }) => {
    const params = { cursor: 'string', limit: integer({ default: 500, maximum: 100 }) };
    expect(writtenIn(importListing(folder, { ...cursor, params }, 'direct'))).toMatchObject({
      entities: { things: { pagination: { maxSize: 100 } } },
    });
  });

  it('of an id that is known within its parent only adds the parent to the key', ({ folder }) => {
    const text = serviceText({
      listings: { lists: { more: onePage }, members: { path: '/lists/{list_id}/members', more: onePage } },
    });
    expect(writtenIn(importText(folder, text, 'hosted'))).toMatchObject({
      entities: { members: { key: ['list_id', 'id'], deletes: 'confirm' } },
    });
  });

  it('of a child of an entity that is asked about asks for the same', ({ folder }) => {
    const text = serviceText({
      listings: {
        lists: { record: { id: { type: 'object' }, name: { type: 'string' } }, more: onePage },
        members: { path: '/lists/{list}/members', more: onePage },
      },
    });
    expect(outcomeOf(importText(folder, text, 'hosted'), 'members')).toMatch(/^asked: key/);
  });

  it('of a report without a key is stored by all that its records hold, if that is answered', ({
    folder,
  }) => {
    const text = serviceText({
      listings: { things: { record: { clicks: { type: 'integer' } }, more: onePage } },
    });
    const imported = importText(folder, text, 'hosted', {
      entities: { things: { key: 'none', values: {} } },
    });
    expect(writtenIn(imported)).toMatchObject({ entities: { things: { key: 'none', deletes: 'never' } } });
  });

  it('of a default that counts days from now is a time of the clock, and deletes nothing', ({ folder }) => {
    const since = "{{ (now_utc() - duration('P30D')).strftime('%Y-%m-%d') }}";
    const params = { since: { schema: { type: 'string', default: since } } };
    expect(writtenIn(importListing(folder, { params, more: onePage }, 'hosted'))).toMatchObject({
      entities: { things: { fixedParams: { since: { days: -30, format: 'date' } }, deletes: 'never' } },
    });
  });

  it('of a default that is a fixed day asks for which time, and keeps a version in a header', ({
    folder,
  }) => {
    const params = {
      from: { required: true, schema: { type: 'string', default: '2024-01-01' } },
      'Shop-Version': { in: 'header', required: true, schema: { type: 'string', default: '2024-01-01' } },
    };
    const text = serviceText({ listings: { things: { params, more: onePage } } });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(
      /^asked: value its default \(2024-01-01\) may leave records out/,
    );
    const imported = importText(folder, text, 'direct', { values: { from: '2010-01-01' } });
    expect(writtenIn(imported)).toMatchObject({
      entities: { things: { fixedParams: { from: '2010-01-01' } } },
      upstream: { headers: { 'Shop-Version': '2024-01-01' } },
    });
  });

  it('of two ways to sign in leaves out the one that cannot be used', ({ folder }) => {
    const computed = {
      type: 'oauth2',
      'x-airbyte-auth-config': {
        title: 'OAuth',
        properties: { access_token: {} },
        auth_mapping: { access_token: '${access_token}' },
        additional_headers: { 'X-Sum': '{{ access_token | md5 }}' },
      },
    };
    const listings = { things: { more: onePage } };
    const both = importText(folder, serviceText({ listings, schemes: { key: bearer, computed } }), 'direct');
    expect(writtenIn(both)).toMatchObject({ credentials: [{ title: 'Key' }] });
    const none = importText(folder, serviceText({ listings, schemes: { computed } }), 'direct');
    expect(outcomeOf(none)).toMatch(/^refused: no way to sign in can be used: its header X-Sum/);
  });

  it('of a name that reaches a prototype, or is SQL, leaves the others as they are', ({ folder }) => {
    const names = ['constructor', 'prototype', '__proto__', 'x"; DROP TABLE things; --', '../../etc/passwd'];
    const listings = Object.fromEntries(
      names.map((name, at): [string, Listing] => [
        `a${at}`,
        { more: { ...onePage, 'x-airbyte-entity': name } },
      ]),
    );
    const text = serviceText({ listings: { ...listings, things: { more: onePage } } });
    const imported = importText(folder, text, 'direct');
    expect(names.map((name) => outcomeOf(imported, name).slice(0, 19))).toEqual(
      names.map(() => 'refused: its name c'),
    );
    expect(outcomeOf(imported)).toBe('converted');
    expect(Object.keys(writtenIn(imported)['entities'] as object)).toEqual(['things']);
  });

  it('of a listing that a person calls one page, against what the file proves, asks again', ({ folder }) => {
    const single = { entities: { things: { values: {}, paging: 'single' } } } as const;
    const text = serviceText({ listings: { things: cursor } });
    expect(outcomeOf(importText(folder, text, 'direct', single))).toMatch(
      /^asked: paging the answer says single, and by the file it pages \(parameter cursor, token in next_cursor\)/,
    );
  });

  it('of one page by a word, whose answers can say more, makes a sync see that', ({ folder }) => {
    const params = { starting_after: 'string' };
    const flag = { answer: { has_more: { type: 'boolean' } }, meta: { more: '$.has_more' } };
    const listings = { things: { params, ...flag }, others: { ...flag, more: onePage } };
    const text = serviceText({ listings });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(
      /^asked: paging starting_after could take .* has_more says whether more follows: how does it page\?$/,
    );
    const answers = { entities: { things: { values: {}, paging: 'single' } } } as const;
    for (const [mode, key] of [
      ['hosted', 'more'],
      ['direct', 'has_more'],
    ] as const) {
      const imported = importText(folder, text, mode, answers);
      const pagination = { kind: 'single', flagKeys: [key] };
      expect(writtenIn(imported)).toMatchObject({
        entities: { things: { pagination }, others: { pagination } },
        ...(mode === 'direct' && {
          upstream: { entities: { things: { list: { metadata: { has_more: 'has_more' } } } } },
        }),
      });
      const outcome = imported.outcomes.get('things');
      expect(outcome && outcomeText(outcome)).toContain('a sync fails where has_more says that more follows');
    }
  });

  it('of an answer that names no parameter or no place asks again', ({ folder }) => {
    const text = serviceText({ listings: { things: { params: { from: 'string' } } } });
    const ask = (paging: object) =>
      outcomeOf(
        importText(folder, text, 'direct', { entities: { things: { values: {}, paging } as never } }),
      );
    expect(ask({ by: 'token', param: 'fromm', from: 'next' })).toMatch(
      /names the parameter fromm; the file declares from; did you mean "from"\?/,
    );
    expect(ask({ by: 'token', param: 'from' })).toMatch(/lacks from/);
  });

  it('of a paging parameter that only a person knows is sent to the service, and marked as their word', ({
    folder,
  }) => {
    const text = serviceText({ listings: { things: { answer: { next: { type: ['string', 'null'] } } } } });
    const paging = { by: 'token', param: 'page_token', from: 'next' } as const;
    const answers = { entities: { things: { values: {}, paging } } };
    expect(outcomeOf(importText(folder, text, 'hosted', answers))).toMatch(/names the parameter page_token/);
    const imported = importText(folder, text, 'direct', answers);
    expect(writtenIn(imported)).toMatchObject({
      entities: {
        things: {
          actions: { list: { params: { page_token: { type: 'string' } } } },
          pagination: { kind: 'pageToken', tokenParam: 'page_token' },
        },
      },
    });
    expect(imported.definition?.text).toContain('answered: by token; the file has no parameter page_token');
  });

  const kinds = {
    status: { required: true, schema: { type: 'string', enum: ['all', 'ended'] } },
    year: { required: true, schema: { type: 'integer' } },
    kinds: { required: true, schema: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } } },
    open: { required: true, schema: { type: 'boolean' } },
  };

  it.for<[keyof typeof kinds, JsonValue, string]>([
    ['status', 'everything', 'expected one of all, ended, got everything'],
    ['status', 'al', 'expected one of all, ended, got al; did you mean "all"?'],
    ['year', 'many', 'expected a whole number, got many'],
    ['kinds', 'a, zebra', 'expected one of a, b, got zebra'],
    ['open', 'maybe', 'expected true or false, got maybe'],
    ['open', null, 'it is required: null would send nothing'],
  ])('of the value %s: %j, which the file does not allow, asks again', ([name, value, why], { folder }) => {
    const text = serviceText({ listings: { things: { params: { [name]: kinds[name] }, more: onePage } } });
    const imported = importText(folder, text, 'direct', { values: { [name]: value } });
    expect(outcomeOf(imported)).toBe(`asked: value things: ${why}`);
  });

  it('of values that the file allows sends them as it has them', ({ folder }) => {
    const text = serviceText({ listings: { things: { params: kinds, more: onePage } } });
    const values = { status: 'all', year: '7', kinds: 'a, b', open: 'true' };
    expect(writtenIn(importText(folder, text, 'direct', { values }))).toMatchObject({
      entities: { things: { fixedParams: { status: 'all', year: 7, kinds: ['a', 'b'], open: true } } },
    });
  });

  const ways = [
    [
      { by: 'token', param: 'from', from: 'meta.next' },
      { kind: 'pageToken', tokenParam: 'from' },
    ],
    [
      { by: 'address', param: 'from', from: 'header Link' },
      { kind: 'pageToken', tokenParam: 'from' },
    ],
    [
      { by: 'page', param: 'number', first: 0 },
      { kind: 'page', pageParam: 'number', first: 0 },
    ],
    [
      { by: 'offset', param: 'number' },
      { kind: 'offset', offsetParam: 'number', sizeParam: 'limit' },
    ],
    [
      { by: 'lastRecord', param: 'from' },
      { kind: 'lastRecord', tokenParam: 'from', field: 'id' },
    ],
  ] as const;

  it.for(ways)(
    'of pages that only a person knows is left by the answer %j',
    ([paging, pagination], { folder }) => {
      const params = { from: 'string', number: integer(), limit: integer() };
      const text = serviceText({ listings: { things: { params } } });
      const answers = { entities: { things: { values: {}, paging } } };
      expect(writtenIn(importText(folder, text, 'direct', answers))).toMatchObject({
        entities: { things: { pagination } },
      });
    },
  );
});
