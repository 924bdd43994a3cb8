import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import {
  builtInDefinitionsFolder,
  findDefinitions,
  loadDefinitions,
} from '../../src/definitions/load-definitions.ts';
import { parseYaml } from '../../src/definitions/read-yaml.ts';

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

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('what a definition says about its store, its files and its credentials', () => {
  it('is read with everything that it leaves out', () => {
    writeFileSync(path.join(folder, 'shelves.yaml'), text);
    const definition = loadDefinitions([folder]).get('shelves');
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

  it('reads nothing again because a field is filled from another, or refers to one', () => {
    const written = '    filledFrom: { facts: details }\n';
    const others = ['', `${written}    references: { facts.book: books.id }\n`];
    const hashes = [text, ...others.map((other) => text.replace(written, other))].map((each) => {
      writeFileSync(path.join(folder, 'shelves.yaml'), each);
      return loadDefinitions([folder]).get('shelves')?.contentHash;
    });
    expect(new Set(hashes).size).toBe(1);
  });

  it.each<readonly [string, string, string]>([
    ['of a field that does not exist', 'fact: details', 'fact: no such field: "fact"; did you mean "facts"?'],
    ['of the key', 'id: details', 'id: id is part of the key: it cannot be a copy'],
    ['of an exploded array', 'loans: details', 'loans: loans is exploded: it cannot be a copy'],
    [
      'of what is volatile',
      'file: details',
      'file: file is volatile: a copy is left out of the content hash anyway',
    ],
    ['from itself', 'facts: facts', 'facts: expected another field than facts itself'],
    ['from what is dropped', 'facts: _links', 'facts: _links is ignored: a change of it would not be seen'],
    ['from what is no name', 'facts: "a b"', 'facts: expected a letter, then letters, digits'],
  ])('is refused with a copy %s', (_, copy, expected) => {
    expect(problemsWith('facts: details', copy)[0]).toEqual(
      expect.stringContaining(`entities.books.filledFrom.${expected}`),
    );
  });

  it.each<readonly [string, string, string]>([
    ['of a field that does not exist', 'pagez.id: books.id', 'pagez.id: no such field: "pagez"'],
    ['to no entity', 'title: bokes.id', 'title: no such entity: "bokes"'],
    ['to no field', 'title: books.idd', 'title: no such field of books: "idd"; did you mean "id"?'],
    ['to an entity alone', 'title: books', 'title: expected an entity and its field, such as lists.id'],
    ['to itself', 'title: books.title', 'title: expected another field than the field itself'],
    [
      'to what refers to another',
      'title: books.sum, sum: books.id',
      'title: books.sum itself refers to books.id: name that',
    ],
    ['of a path with a gap', 'facts..id: books.id', 'facts..id: expected names joined by dots'],
  ])('is refused with a reference %s', (_, reference, expected) => {
    const written = '    filledFrom: { facts: details }\n';
    expect(problemsWith(written, `${written}    references: { ${reference} }\n`)[0]).toEqual(
      expect.stringContaining(`entities.books.references.${expected}`),
    );
  });

  it.each<readonly [string, string, string, string]>([
    [
      'made from a slip of the pen',
      'title, headline]',
      'title, titles]',
      'searchable.title.from.1: no such field: "titles"; did you mean "title"?',
    ],
    [
      'made from one field twice',
      'title, headline]',
      'title, title]',
      'searchable.title.from.1: title is named twice',
    ],
    [
      'made from what is dropped',
      'title, headline]',
      'title, _links]',
      'searchable.title.from.1: _links is ignored: it is not stored, and nothing can be made from it',
    ],
    [
      'made from an exploded array',
      'title, headline]',
      'title, loans]',
      'searchable.title.from.1: loans is exploded: name the fields of its elements',
    ],
    [
      'made from a reserved name',
      'title, headline]',
      'title, constructor]',
      'searchable.title.from.1: no such field: "constructor"',
    ],
    [
      'made from nothing',
      'from: [title, headline]',
      'from: []',
      'searchable.title.from: expected at least 1',
    ],
    [
      'of pairs of a text',
      'facts: object,',
      'facts: string,',
      'searchable.facts.shape: pairs are made from objects; facts is of type string',
    ],
    [
      'of pairs that is no array',
      'type: array, shape: pairs',
      'type: object, shape: pairs',
      'searchable.facts.type: expected array beside shape: pairs, got object',
    ],
    [
      'of a shape that does not exist',
      'shape: pairs',
      'shape: pair',
      'searchable.facts.shape: expected one of asIs, pairs, got "pair"; did you mean "pairs"?',
    ],
    [
      'with a name of signs',
      '      reader: string',
      "      'rea\"der': string",
      'searchable.rea"der: expected a letter, then letters, digits',
    ],
  ])('is refused with a searchable field %s', (_, from, to, expected) => {
    expect(problemsWith(from, to)).toEqual([expect.stringContaining(`entities.books.${expected}`)]);
  });

  it.each<readonly [string, string, string, string]>([
    ['without a key', 'key: { book_id: id }', 'key: {}', 'key: is missing book_id'],
    [
      'that asks for nothing',
      'params: { book_id: { type: string, required: true } }\n        key: { book_id: id }',
      'params: {}',
      'key: expected at least one parameter: nothing else says which file is asked for',
    ],
    [
      'with a key of nothing',
      'key: { book_id: id }',
      'key: { book_id: idd }',
      'key.book_id: no such field: "idd"; did you mean "id"?',
    ],
    ['without a file', '        file: {', '        fil: {', 'fil: unknown key; did you mean "file"?'],
    [
      'with a name that is a number',
      'name: file,',
      'name: pages,',
      'file.name: expected a field of type string, pages is of type integer',
    ],
    [
      'with a media type from nowhere',
      'contentType: title',
      'contentType: titles',
      'file.contentType: no such field: "titles"; did you mean "title"?',
    ],
    [
      'with a size that is a text',
      'size: pages',
      'size: sum',
      'file.size: expected a field of type integer, sum is of type string',
    ],
    [
      'with a version that nothing tells',
      'version: [sum, pages]',
      'version: []',
      'file.version: expected at least 1',
    ],
    [
      'with a version from nowhere',
      'version: [sum, pages]',
      'version: [sums]',
      'file.version.0: no such field: "sums"; did you mean "sum"?',
    ],
    [
      'with a version that is named twice',
      'version: [sum, pages]',
      'version: [sum, sum]',
      'file.version.1: sum is named twice',
    ],
  ])('is refused with a download %s', (_, from, to, expected) => {
    expect(problemsWith(from, to).join('\n')).toContain(`entities.books.actions.download.${expected}`);
  });
});

describe('ways to sign in are refused', () => {
  it.each<readonly [string, string, string, string]>([
    [
      'of one title',
      'title: OAuth',
      'title: Key',
      'credentials.1.title: "Key" is the title of two ways to sign in',
    ],
    [
      'without fields',
      '{ client_id: { secret: false }, client_secret: {} }',
      '{}',
      'credentials.1.fields: expected at least one field that is required',
    ],
    [
      'with a field of signs',
      'client_id:',
      "'client id':",
      'credentials.1.fields.client id: expected a letter, then letters',
    ],
    [
      'with a field that says too much',
      'secret: false }, client',
      'secrets: false }, client',
      'secrets: unknown key; did you mean "secret"?',
    ],
    ['without a title', 'title: OAuth, ', '', 'credentials.1.title: is missing; expected a string'],
  ])('%s', (_, from, to, expected) => {
    expect(problemsWith(from, to)).toEqual([expect.stringContaining(expected)]);
  });
});

describe('mistakes of shape', () => {
  const data: unknown = JSON.parse(JSON.stringify(parseYaml('shelves', text).data));

  it.each([5, [5]])('hide no other problem and cause none, wherever a value is replaced by %j', (wrong) => {
    const spurious = placesIn(data).flatMap((place) => {
      const found = problemsOf(JSON.stringify(withValue(data, place, wrong)));
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

function problemsWith(from: string, to: string): readonly string[] {
  expect(text).toContain(from);
  return problemsOf(text.replace(from, () => to));
}

function problemsOf(changed: string): readonly string[] {
  writeFileSync(path.join(folder, 'shelves.yaml'), changed);
  return findDefinitions([folder]).problems.map((problem) => `${problem.path}: ${problem.message}`);
}

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
