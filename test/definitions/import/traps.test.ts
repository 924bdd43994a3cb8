import { describe, expect } from 'vitest';
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

  it('of a place in the path that nothing fills has a TODO', ({ folder }) => {
    const params = { shop: { in: 'path', required: true, schema: { type: 'string' } } };
    const text = serviceText({
      listings: { things: { path: '/shops/{shop}/things', params, more: onePage } },
    });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(/^todo: value/);
    expect(writtenIn(importText(folder, text, 'direct'))).toMatchObject({
      entities: {
        things: {
          actions: { list: { params: { shop: { type: 'string', required: true } } } },
          fixedParams: { shop: 'todo' },
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

  it('of a report without a key is guessed to be stored by all that its records hold', ({ folder }) => {
    const text = serviceText({
      listings: { things: { record: { clicks: { type: 'number' } }, more: onePage } },
    });
    const imported = importText(folder, text, 'hosted');
    expect(outcomeOf(imported)).toMatch(/^todo: key write the fields that identify a record, or none/);
    expect(writtenIn(imported)).toMatchObject({ entities: { things: { key: 'none', deletes: 'never' } } });
  });

  it('of a default that a template computes sends none of it', ({ folder }) => {
    const since = "{{ (now_utc() - duration('P30D')).strftime('%Y-%m-%d') }}";
    const params = {
      since: { schema: { type: 'string', default: since } },
      'X-Since': { in: 'header', schema: { type: 'string', default: since } },
    };
    const imported = importListing(folder, { params, more: onePage }, 'direct');
    expect(outcomeOf(imported)).toMatch(/^todo: value .*a template computes its default .*days: -30/);
    expect(JSON.stringify(writtenIn(imported))).not.toContain('now_utc');
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
      /^todo: value .*its default \(2024-01-01\) may leave records out/,
    );
    expect(writtenIn(importText(folder, text, 'direct'))).toMatchObject({
      entities: { things: { fixedParams: { from: '2024-01-01' } } },
      upstream: { entities: { things: { headers: { 'Shop-Version': '2024-01-01' } } } },
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

  it('of one page by a word, whose answers can say more, makes a sync see that', ({ folder }) => {
    const flag = { answer: { has_more: { type: 'boolean' } }, meta: { more: '$.has_more' } };
    const text = serviceText({ listings: { others: { ...flag, more: onePage } } });
    for (const [mode, key] of [
      ['hosted', 'more'],
      ['direct', 'has_more'],
    ] as const) {
      expect(writtenIn(importText(folder, text, mode))).toMatchObject({
        entities: { others: { pagination: { kind: 'single', flagKeys: [key] } } },
      });
    }
  });

  const kinds = {
    status: { required: true, schema: { type: 'string', enum: ['all', 'ended'] } },
    year: { required: true, schema: { type: 'integer' } },
    kinds: { required: true, schema: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } } },
    open: { required: true, schema: { type: 'boolean' } },
  };

  it('of values that nothing fills guesses what the file allows', ({ folder }) => {
    const text = serviceText({ listings: { things: { params: kinds, more: onePage } } });
    const imported = importText(folder, text, 'direct');
    expect(writtenIn(imported)).toMatchObject({
      entities: { things: { fixedParams: { status: 'all', year: 0, kinds: ['todo'], open: true } } },
    });
    expect(outcomeOf(imported)).toContain('value write what to send as status (such as all, ended): ');
  });
});
