import { describe, expect, it } from 'vitest';
import type { Entity } from '../../src/definitions/definition.ts';
import {
  builtInDefinitionsFolder,
  loadDefinitions,
  parseDefinition,
} from '../../src/definitions/load-definitions.ts';
import { fixedParamsAt } from '../../src/definitions/params.ts';
import { parseYaml } from '../../src/definitions/read-yaml.ts';
import { builtInText, itRefuses, problemsIn } from '../support/definitions/changed-definition.ts';

const mailing = builtInText('email-marketing');
const notes = builtInText('workspace-notes');

/** The one entity of a definition. */
function entityIn(text: string): Entity {
  const [entity] = parseDefinition('read.yaml', text).definition?.entities.values() ?? [];
  if (entity === undefined) throw new Error('expected the entity');
  return entity;
}

describe('reading changes', () => {
  describe('a way to read only what changed is refused', () => {
    const keyset = 'field: last_changed, sinceParam: since_last_changed';
    itRefuses('of email-marketing', mailing, {
      'kind: keyset, → kind: keysets,':
        'incremental.kind: expected kind: keyset, since, newestFirst or windows',
      [`${keyset} → field: last_change, sinceParam: since_last_changed`]:
        'list_members.incremental.field: no such field: "last_change"; did you mean "last_changed"?',
      [`${keyset} → field: vip, sinceParam: since_last_changed`]:
        'list_members.incremental.field: expected a field of type string that holds a time, vip is of type boolean',
      [`${keyset} → field: last_changed, sinceParam: since_changed`]:
        'list_members.incremental.sinceParam: no such list parameter: "since_changed"',
      [`${keyset} → field: last_changed, sinceParam: vip_only`]:
        'list_members.incremental.sinceParam: expected a list parameter of type string, vip_only is of type boolean',
      'field: last_changed\n      params: { sort_field: last_changed → field: timestamp_opt\n      params: { sort_field: timestamp_opt':
        'list_members.incremental.field: keyset expects the order to sort by last_changed, ascending; order sorts by timestamp_opt',
      'field: activity.timestamp → field: activity.time':
        'email_activity.incremental.field: no such field: "activity.time"; did you mean "activity.type"?',
      'growsOnly: true\n    deletes: never\n    # Only what → deletes: never\n    # Only what':
        'email_activity.incremental: expected an order, or growsOnly',
      'lookbackMs: 60000 → lookbackMs: 0':
        'list_members.incremental.lookbackMs: expected at least 1000, got 0',
    });

    itRefuses('of workspace-notes', notes, {
      'direction: descending } → direction: descend }':
        'pages.incremental.params.sort: sort.direction: expected one of ascending, descending, got "descend"',
      '    recursive:\n →     incremental: *newestEditFirst\n    recursive:\n':
        'blocks.incremental: expected no tree',
      'marker: &edited { field: last_edited_time, → marker: &edited { field: last_edit_time,':
        'blocks.parents.0.marker.field: no such field of pages: "last_edit_time"; did you mean "last_edited_time"?',
      '        params: { block_id: id }\n        inject: { page_id: block_id } →         params: { block_id: url.id }\n        inject: { page_id: block_id }':
        'blocks.parents.0.params.block_id: expected a field of pages of type object or any, url is of type string',
      '        params: { block_id: id }\n        inject: { page_id: block_id } →         params: { block_id: created_by. }\n        inject: { page_id: block_id }':
        'blocks.parents.0.params.block_id: expected names joined by dots, got "created_by."',
      'request_status: request_status } → status: request_status }':
        'list.metadata: expected request_status.type, the sign of cut of the entity, and where the answer has it',
      'marker: &edited { field: last_edited_time, → marker: &edited { field: properties,':
        'blocks.parents.0.marker.field: expected a field of pages of type string, properties is of type object',
    });
  });

  describe('what full walks and backfills rest on is refused', () => {
    itRefuses('is refused', mailing, {
      'growsOnly: true\n    deletes: never → growsOnly: true':
        'email_activity.growsOnly: expected deletes: never beside it (got sweep)',
      'unlisted: [{ field: status, → unlisted: [{ field: statu,':
        'list_members.unlisted.0.field: no such field: "statu"; did you mean "status"?',
      'values: [archived] → values: [archived, true]':
        'list_members.unlisted.0.values.1: expected a string, the type of status, got true',
      'unlisted: [{ field: status, → whole: [email_adress]\n    unlisted: [{ field: status,':
        'list_members.whole.0: no such field: "email_adress"; did you mean "email_address"?',
      'unlisted: [{ field: status, → whole: [list_id]\n    unlisted: [{ field: status,':
        'list_members.whole.0: expected a field that the service sends, list_id is filled in from the listing',
      'before: before_last_changed → before: before_changed':
        'list_members.window.before: no such list parameter: "before_changed"',
      'before: before_last_changed → before: since_last_changed':
        'list_members.window: expected two parameters, got since_last_changed for both bounds',
    });

    it('with everything else that is wrong in the file', () => {
      const problems = problemsIn(
        mailing
          .replace(
            'field: last_changed, sinceParam: since_last_changed',
            'field: last_change, sinceParam: since_changed',
          )
          .replace('before: before_last_changed', 'before: before_changed')
          .replace('unlisted: [{ field: status,', 'unlisted: [{ field: state,'),
      );
      expect(problems.filter((line) => line.includes('list_members'))).toHaveLength(5);
    });
  });
});

describe('pagination problems', () => {
  const byPage = 'kind: page, pageParam: page, first: 1, sizeParam: size, maxSize: 50';
  const byLast = 'kind: lastRecord, tokenParam: after, field: id, sizeParam: size, maxSize: 50';
  const byToken = 'kind: pageToken, tokenParam: after';

  const definition = (pagination: string, more: string): string => `
name: pages
title: Pages
id: 5b1f2f0a-6a44-4b37-9d0e-5f4b6f0c2a12
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  items:
    fields: { id: string, at: string, page: object, tags: array }
    key: [id]
    actions: { list: { params: { page: integer, size: integer, after: string, since: string } } }
    pagination: { ${pagination} }
${more}`;

  const problemsOf = (pagination: string, more = ''): string =>
    problemsIn(definition(pagination, more)).join('\n');

  describe('a pagination', () => {
    it.each([
      ['by pages', byPage],
      ['by pages of a fixed size', 'kind: page, pageParam: page, first: 0, maxSize: 50, end: repeats'],
      [
        'by pages with keys and an end',
        `${byPage}, flagKeys: [a.more], totalKeys: [b.total], honoursSize: true, end: { status: 404 }`,
      ],
      ['by pages from 100 in steps of 5', 'kind: page, pageParam: page, first: 100, step: 5, maxSize: 50'],
      ['by offsets from 1', 'kind: offset, offsetParam: page, first: 1, sizeParam: null, maxSize: 50'],
      ['by the last record', byLast],
      ['by a path in the last record', byLast.replace('field: id', 'field: page.cursor')],
      ['by a token in an object', `${byToken}, tokenKeys: [next.offset]`],
      ['by a token in an address', `${byToken}, tokenKeys: [{ key: next, param: 'page[after]' }]`],
    ])('is taken: %s', (_what, pagination) => {
      expect(problemsOf(pagination)).toBe('');
    });

    const and = (more: string): string =>
      `size: integer, after: string, since: string } } }\n    incremental: { ${more}, field: at, sinceParam: since, lookbackMs: 1000 }`;
    const params = 'size: integer, after: string, since: string } } }';

    itRefuses('by pages is refused', definition(byPage, ''), {
      'kind: page, → kind: pages,':
        'pagination.kind: expected kind: offset, page, pageToken, lastRecord or single',
      'first: 1 → first: 1001': 'pagination.first: expected at most 1000, got 1001',
      'first: 1 → first: 1, step: 50': 'pagination.step: expected another number than maxSize',
      'maxSize: 50 → maxSize: 50, flagKeys: [more], doneKeys: [done]':
        'pagination.doneKeys: expected flagKeys or doneKeys, not both',
      'maxSize: 50 → maxSize: 50, firstParams: { page: 1 }':
        'pagination.firstParams.page: is set by the pagination: leave it out',
      'maxSize: 50 → maxSize: 50, firstParams: { mode: all }':
        'pagination.firstParams.mode: mode: no such parameter',
      'pageParam: page → pageParam: after':
        'pagination.pageParam: expected a list parameter of type integer, after is of type string',
      'sizeParam: size → sizeParam: page':
        'pagination.sizeParam: expected another parameter than pageParam, which is page too',
      'sizeParam: size, maxSize: 50 → maxSize: 50, honoursSize: true':
        'pagination.honoursSize: expected sizeParam beside it',
      'maxSize: 50 → maxSize: 50, end: 404': 'pagination.end: expected repeats, or { status: 404 }',
      'maxSize: 50 → maxSize: 50, tokenKeys: [next]': 'pagination.tokenKeys: unknown key',
      'maxSize: 50 → maxSize: 50, flagKeys: [more], totalKeys: [more]':
        'pagination: more is named twice among totalKeys, flagKeys, doneKeys and tokenKeys',
      'maxSize: 50 → maxSize: 50, totalKeys: [a..b]': 'pagination.totalKeys.0: expected names joined by dots',
      [`${params} → ${and('kind: since')}`]:
        'incremental: expected an order, or growsOnly: pages by page prove nothing without one',
    });

    itRefuses('by the last record is refused', definition(byLast, ''), {
      'tokenParam: after → tokenParam: afterwards':
        'pagination.tokenParam: no such list parameter: "afterwards"',
      'field: id → field: idd': 'pagination.field: no such field: "idd"; did you mean "id"?',
      'field: id → field: tags':
        'pagination.field: expected a field of type string or integer or any, tags is of type array',
      "field: id → field: 'page.'": 'pagination.field: expected names joined by dots',
      ', maxSize: 50 → ': 'pagination.maxSize: expected maxSize and sizeParam together, or neither',
      [`${params} → ${and('kind: keyset')}`]:
        'incremental.kind: keyset expects pagination by offset or page, got lastRecord',
    });

    itRefuses(
      'by the last record is refused, if that has a date alone',
      definition(byLast, '').replace('field: id', 'field: at'),
      {
        [`${params} → ${and('kind: since')}`]:
          'incremental: expected the field of the pagination to be the key',
      },
    );

    itRefuses('by a token is refused', definition(byToken, ''), {
      "tokenParam: after → tokenParam: after, tokenKeys: [{ key: next, param: 'page[after]' }], flagKeys: [next]":
        'pagination: next is named twice among totalKeys, flagKeys, doneKeys and tokenKeys',
      'tokenParam: after → tokenParam: after, tokenKeys: [{ key: next }]':
        "pagination.tokenKeys.0: expected a key, or { key: links.next, param: 'page[cursor]' }",
      "tokenParam: after → tokenParam: after, tokenKeys: [{ key: next, param: 'a b' }]":
        'pagination.tokenKeys.0.param: expected a letter',
    });
  });

  describe('a rule that would let every row seem to have changed', () => {
    itRefuses('is refused', definition(byPage, ''), {
      'key: [id] → key: [id]\n    addedLater: [tags]\n    explode: { into: rows, field: tags, carry: [id], fields: { tag: string }, key: [id, tag] }':
        'addedLater.0: tags is exploded: it has no column',
      'key: [id] → key: [id]\n    addedLater: [tags, id]': 'addedLater.1: id is part of the key',
    });
  });

  describe('how a listing is cut', () => {
    const order = '    order: { field: at, params: { since: asc } }\n';
    const cut = (text: string): string => `    cut: { ${text} }`;
    const reversed = 'maxResults: 100, reversed: { since: desc }';

    it('is taken by a sign, by a number, and with the other order', () => {
      for (const text of [
        'sign: { key: status.type }',
        'maxResults: 100',
        `sign: { key: cut, is: 1 }, ${reversed}`,
      ]) {
        expect(problemsOf(byLast, order + cut(text))).toBe('');
      }
    });

    it.each([
      ['reversed: { since: desc }', order, 'cut: expected sign, maxResults or both'],
      ['maxResults: 0', '', 'cut.maxResults: expected at least 1, got 0'],
      ['sign: { key: a..b }', '', 'cut.sign.key: expected names joined by dots, got "a..b"'],
      [reversed, '', 'cut.reversed: expected an order, whose opposite it is'],
      [reversed, order.replace('field: at', 'field: tags'), 'order.field: expected a field of type string'],
      [`maxResults: 9, reversed: {}`, order, 'cut.reversed: expected the parameters that sort newest first'],
      [
        reversed,
        `${order}    incremental: { kind: newestFirst, field: page.at, params: { since: desc }, lookbackMs: 1000 }\n`,
        'cut.reversed: expected the order to sort by the field of incremental, page.at, got at',
      ],
    ])('is refused where it cannot be: %s', (text, more, expected) => {
      expect(problemsOf(byLast, more + cut(text))).toContain(expected);
    });
  });
});

describe('trees and events', () => {
  itRefuses('a tree of listings is refused', notes, {
    'flag: has_children → flag: object':
      'recursive.flag: expected a field of type boolean, object is of type string',
    'depth: integer → dept: integer': 'recursive.depthField: no such field: "depth"; did you mean "dept"?',
    'param: block_id → param: page_size':
      'blocks.parents.0.params: expected page_size, which begins the tree',
    'inject: { page_id: block_id } → inject: {}': 'blocks.parents.0.inject: expected page_id: block_id',
    'maxDepth: 30 → maxDepth: 101': 'recursive.maxDepth: expected at most 100, got 101',
  });

  itRefuses('an exploded array is refused', mailing, {
    'into: email_activity_events → into: constructor': 'explode.into: constructor is reserved',
    'field: activity\n → field: email_id\n':
      'explode.field: expected a field of type array, email_id is of type string',
    'field: activity\n → field: activities\n':
      'explode.field: no such field: "activities"; did you mean "activity"?',
    'carry: [campaign_id, → carry: [campaign,': 'explode.carry.0: no such field: "campaign"',
    'action, type, url, ip] → action, type, url, ipp]':
      'explode.key.6: no such field: "ipp"; did you mean "ip"?',
    'action: string\n        timestamp → email_id: string\n        timestamp':
      'explode.fields.email_id: is also carried over',
  });
});

describe('times of the clock', () => {
  const text = `
name: visits
title: Visits
id: 3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  days:
    fields: { id: string, at: integer, seen: string, note: object }
    key: [id]
    actions:
      list:
        params: { from: string, to: string, hour: string, day: integer, s: integer, ms: string, range: object, since: integer }
    pagination: { kind: single }
    fixedParams:
      from: { days: -30, format: date }
      to: { days: 0, format: dateTime }
      hour: { days: 1, format: compactHour }
      day: { days: 0, format: compactDate }
      s: { days: 0, format: unix }
      ms: { days: 0, format: unixMs }
      range: { days: 7, format: date }
    incremental: { kind: since, field: at, format: unix, sinceParam: since, lookbackMs: 1000 }
    deletes: never
`;

  describe('a fixed parameter', () => {
    it('may be a time of the clock, in each of the formats, where it is no object', () => {
      expect(fixedParamsAt(entityIn(text), Date.UTC(2026, 0, 15, 23, 59, 59, 999))).toEqual({
        from: '2025-12-16',
        to: '2026-01-15T23:59:59Z',
        hour: '20260116T23',
        day: 20_260_115,
        s: 1_768_521_599,
        ms: '1768521599999',
        range: { days: 7, format: 'date' },
      });
    });

    itRefuses('is refused where it says nonsense', text, {
      '{ days: -30, format: date } → { days: -30 }': 'fixedParams.from: expected a time of the clock such as',
      '{ days: -30, format: date } → { days: -30, format: date, at: 1 }':
        'fixedParams.from: expected a time of',
      '{ days: -30, format: date } → { days: -30.5, format: date }':
        'fixedParams.from: expected a time of the clock such as',
      '{ days: -30, format: date } → { days: 9999, format: date }':
        'fixedParams.from: expected a time of the clock such as',
      '{ days: -30, format: date } → { days: 1, format: iso }':
        'fixedParams.from: expected a time of the clock such as',
      '{ days: 0, format: unix } → { days: 0, format: date }':
        'fixedParams.s: expected format unix, unixMs or compactDate',
      'from: string, → from: array,': 'fixedParams.from: expected a string or integer parameter for a time',
      'from: string, → from: { type: string, enum: [a] },': 'fixedParams.from: from: expected one of a',
      'deletes: never → deletes: confirm':
        'deletes: expected never, or confirm and a get: with from each run lists',
      'deletes: never → deletes: sweep':
        'deletes: expected never, or confirm and a get: with from each run lists',
      'field: at, format: unix → field: at':
        'incremental.field: expected a field of type string that holds a time',
      'field: at, format: unix → field: note, format: unix':
        'field: expected a field of type integer, number or string for',
      'format: unix, sinceParam → format: unixs, sinceParam':
        'format: expected iso, unix, unixMs or a pattern',
      'sinceParam: since → sinceParam: since, sinceFormat: iso':
        'sinceParam: expected a list parameter of type string',
      'sinceParam: since → sinceParam: range': 'sinceParam: expected a list parameter of type string',
    });
  });
});

describe('no key', () => {
  const text = `
name: visits
title: Visits
id: 3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  days:
    fields: { day: string, pages: array }
    key: none
    actions: { list: {} }
    pagination: { kind: single }
    deletes: never
`;

  describe('an entity without a key', () => {
    it('has a field with the hash of its records as its key', () => {
      const days = entityIn(text);
      expect(days).toMatchObject({ key: ['record_hash'], isKeyless: true });
      expect(days.table.columns.map(({ name }) => name)).toEqual(['record_hash', 'day', 'pages']);
      expect(days.descriptions.get('record_hash')).toBe(
        'Hash of the record, in place of the key that the service does not give',
      );
    });

    it('may have a field of that name as its key, which is one like any other', () => {
      const own = text
        .replace('day: string', 'record_hash: string')
        .replace('key: none', 'key: [record_hash]');
      expect(entityIn(own)).not.toHaveProperty('isKeyless');
    });

    itRefuses('is refused with nonsense beside it', text, {
      'deletes: never → deletes: confirm': 'deletes: expected never beside key: none (got confirm)',
      '    deletes: never\n → ': 'deletes: expected never beside key: none (got sweep)',
      'key: none → key: nothing': 'key: expected an array, got a string',
      'key: none → key: []': 'key: expected at least 1 elements',
      'day: string → record_hash: string': 'fields.record_hash: is the name of the hash',
      'list: {} → list: {}, get: { params: { day: { type: string, required: true } }, key: { day: day } }':
        'actions.get: expected none beside key: none: nothing names one record',
      'deletes: never → deletes: never\n    explode: { field: pages, into: day_pages, fields: { url: string }, key: [url] }':
        'explode: expected none beside key: none',
    });
  });
});

describe('store and files', () => {
  const text = `
name: shelves
title: Shelves
id: 3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
credentials:
  - { title: Key, fields: { api_key: {}, region: { secret: false, required: false } } }
  - { title: OAuth, fields: { client_id: { secret: false }, client_secret: {} } }
entities:
  books:
    fields: { id: string, title: string, pages: integer, facts: object, loans: array, file: string, sum: string }
    key: [id]
    ignored: [_links]
    volatile: [file]
    filledFrom: { facts: details }
    searchable:
      id: string
      title: { type: string, from: [title, headline] }
      facts: { type: array, shape: pairs }
      reader: string
    actions:
      list: {}
      download:
        params: { book_id: { type: string, required: true } }
        key: { book_id: id }
        file: { name: file, contentType: title, size: pages, version: [sum, pages] }
    pagination: { kind: single }
    explode: { field: loans, into: book_loans, carry: [id], fields: { reader: string, at: string }, key: [id, at] }
`;

  describe('what a definition says about its store, its files and its credentials', () => {
    it('is read with everything that it leaves out', () => {
      const { definition } = parseDefinition('shelves.yaml', text);
      const [books] = definition?.entities.values() ?? [];
      expect(definition?.credentials).toEqual([
        {
          title: 'Key',
          fields: new Map([
            ['api_key', { isSecret: true, isRequired: true }],
            ['region', { isSecret: false, isRequired: false }],
          ]),
        },
        {
          title: 'OAuth',
          fields: new Map([
            ['client_id', { isSecret: false, isRequired: true }],
            ['client_secret', { isSecret: true, isRequired: true }],
          ]),
        },
      ]);
      expect(books?.searchable).toEqual(
        new Map([
          ['id', { type: 'string', from: ['id'], shape: 'asIs' }],
          ['title', { type: 'string', from: ['title', 'headline'], shape: 'asIs' }],
          ['facts', { type: 'array', from: ['facts'], shape: 'pairs' }],
          ['reader', { type: 'string', from: ['reader'], shape: 'asIs' }],
        ]),
      );
      expect(books?.actions.get('download')).toMatchObject({
        key: new Map([['book_id', 'id']]),
        file: { name: 'file', contentType: 'title', size: 'pages', version: ['sum', 'pages'] },
      });
      expect(books?.actions.get('list')?.file).toBeNull();
      expect(books?.filledFrom).toEqual(new Map([['facts', 'details']]));
    });

    it('may have a searchable field that is not declared, and is named much as one that is', () => {
      for (const other of ['fact: { type: array, shape: pairs }', 'fact: object']) {
        const changed = text.replace('facts: { type: array, shape: pairs }', other);
        expect(parseDefinition('shelves.yaml', changed).problems).toEqual([]);
      }
    });

    it('reads nothing again because a field is filled from another, or refers to one', () => {
      const written = '    filledFrom: { facts: details }\n';
      const others = ['', `${written}    references: { facts.book: books.id }\n`];
      const hashes = [text, ...others.map((other) => text.replace(written, other))].map(
        (each) => parseDefinition('shelves.yaml', each).definition?.contentHash,
      );
      expect(new Set(hashes).size).toBe(1);
    });

    itRefuses('is refused with a copy', text, {
      'facts: details → fact: details': 'filledFrom.fact: no such field: "fact"; did you mean "facts"?',
      'facts: details → id: details': 'filledFrom.id: id is part of the key: it cannot be a copy',
      'facts: details → loans: details': 'filledFrom.loans: loans is exploded: it cannot be a copy',
      'facts: details → facts: _links': 'filledFrom.facts: _links is ignored: a change of it would not be',
      'facts: details → facts: "a b"': 'filledFrom.facts: expected a letter, then letters, digits',
    });

    itRefuses(
      'is refused with a reference',
      text.replace('    volatile', '    references: { facts.id: books.id }\n    volatile'),
      {
        'facts.id: books.id → pagez.id: books.id': 'references.pagez.id: no such field: "pagez"',
        'facts.id: books.id → title: bokes.id': 'references.title: no such entity: "bokes"',
        'facts.id: books.id → title: books.idd':
          'references.title: no such field of books: "idd"; did you mean "id"?',
        'facts.id: books.id → title: books':
          'references.title: expected an entity and its field, such as lists.id',
        'facts.id: books.id → title: books.title':
          'references.title: books.title itself refers to books.title: name that',
        'facts.id: books.id → title: books.sum, sum: books.id':
          'references.title: books.sum itself refers to books.id: name that',
        'facts.id: books.id → facts..id: books.id': 'references.facts..id: expected names joined by dots',
      },
    );

    itRefuses('is refused with a searchable field', text, {
      'title, headline] → title, titles]':
        'searchable.title.from.1: no such field: "titles"; did you mean "title"?',
      'title, headline] → title, _links]':
        'searchable.title.from.1: _links is ignored: it is not stored, and nothing can be made from it',
      'title, headline] → title, loans]':
        'searchable.title.from.1: loans is exploded: name the fields of its elements',
      'title, headline] → title, constructor]': 'searchable.title.from.1: no such field: "constructor"',
      'from: [title, headline] → from: []': 'searchable.title.from: expected at least 1',
      'facts: object, → facts: string,':
        'searchable.facts.shape: pairs are made from objects; facts is of type string',
      'type: array, shape: pairs → type: object, shape: pairs':
        'searchable.facts.type: expected array beside shape: pairs, got object',
      'shape: pairs → shape: pair':
        'searchable.facts.shape: expected one of asIs, pairs, got "pair"; did you mean "pairs"?',
      "      reader: string →       'rea\"der': string":
        'searchable.rea"der: expected a letter, then letters, digits',
    });

    itRefuses('is refused with a download', text, {
      'key: { book_id: id } → key: {}': 'key: is missing book_id',
      'params: { book_id: { type: string, required: true } }\n        key: { book_id: id } → params: {}':
        'key: expected at least one parameter: nothing else says which file is asked for',
      'key: { book_id: id } → key: { book_id: idd }': 'key.book_id: no such field: "idd"; did you mean "id"?',
      '        file: { →         fil: {': 'fil: unknown key; did you mean "file"?',
      'name: file, → name: pages,': 'file.name: expected a field of type string, pages is of type integer',
      'contentType: title → contentType: titles':
        'file.contentType: no such field: "titles"; did you mean "title"?',
      'size: pages → size: sum': 'file.size: expected a field of type integer, sum is of type string',
      'version: [sum, pages] → version: []': 'file.version: expected at least 1',
      'version: [sum, pages] → version: [sums]': 'file.version.0: no such field: "sums"; did you mean "sum"?',
    });
  });

  itRefuses('a way to sign in is refused', text, {
    'title: OAuth → title: Key': 'credentials.1.title: "Key" is the title of two ways to sign in',
    '{ client_id: { secret: false }, client_secret: {} } → {}':
      'credentials.1.fields: expected at least one field that is required',
    "client_id: → 'client id':": 'credentials.1.fields.client id: expected a letter, then letters',
    'secret: false }, client → secrets: false }, client': 'secrets: unknown key; did you mean "secret"?',
    'title: OAuth,  → ': 'credentials.1.title: is missing; expected a string',
  });

  describe('mistakes of shape', () => {
    const data: unknown = JSON.parse(JSON.stringify(parseYaml('shelves', text).data));

    it.each([5, [5]])('hide no other problem and cause none, wherever a value is replaced by %j', (wrong) => {
      const spurious = placesIn(data).flatMap((place) => {
        const found = problemsIn(JSON.stringify(withValue(data, place, wrong)));
        const beside = found.filter((problem) => !` ${problem}`.includes(` ${place.join('.')}`));
        return found.some((problem) => /, got an? (number|array)$/.test(problem)) ? beside : [];
      });
      expect(spurious).toEqual([]);
    });
  });

  it('names downloads, what a record says of its file, and a credential of the built-in library', () => {
    const library = loadDefinitions([builtInDefinitionsFolder]).get('document-library');
    const entities = [...(library?.entities.values() ?? [])];
    expect(entities.map(({ name, actions }) => [name, ...actions.keys()])).toEqual([
      ['folders', 'list', 'get', 'context_store_search'],
      ['documents', 'list', 'get', 'context_store_search'],
      ['attachments', 'list', 'get', 'download'],
    ]);
    expect(entities[2]?.actions.get('download')?.file).toEqual({
      name: 'file_name',
      contentType: 'content_type',
      size: 'size',
      version: ['checksum'],
    });
    expect(library?.credentials.map(({ fields }) => [...fields.keys()])).toEqual([['api_token']]);
  });

  type Place = readonly string[];

  function placesIn(value: unknown, at: Place = []): readonly Place[] {
    const inner = typeof value === 'object' && value !== null ? Object.entries(value) : [];
    return inner.flatMap(([name, part]) => [[...at, name], ...placesIn(part, [...at, name])]);
  }

  function withValue(whole: unknown, [step = '', ...rest]: Place, value: unknown): unknown {
    const owner: object = typeof whole === 'object' && whole !== null ? structuredClone(whole) : {};
    Reflect.set(owner, step, rest.length === 0 ? value : withValue(Reflect.get(owner, step), rest, value));
    return owner;
  }
});
