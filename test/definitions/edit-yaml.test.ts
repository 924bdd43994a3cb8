import { describe, expect } from 'vitest';
import { withoutYamlEntry, withYamlEntry } from '../../src/definitions/edit-yaml.ts';
import { it } from '../support/it.ts';

const entry = { definition: 'email-marketing', id: '12', schedule: { every: '1h' } };
const block = '  acme:\n    definition: email-marketing\n    id: "12"\n    schedule:\n      every: 1h\n';

describe('an entry added to a YAML file', () => {
  it('stands behind the last one, with every other byte as it was', () => {
    const before =
      "# Ours.\nsinks: { main:   {type: sqlite} }   # one\n\nconnectors:\n  # The letter.\n  news:\n    id: 'a'  # quoted\n    sink: main # last\n  # wiki:\n  #   id: b\n\npublish: {}\n";
    const after = withYamlEntry(before, 'connectors', 'acme', entry);
    expect(after).toBe(before.replace('main # last\n', `main # last\n${block}`));
    expect(withoutYamlEntry(after ?? '', 'connectors', 'acme')).toBe(before);
  });

  it.each([
    ['an empty file', '', `connectors:\n${block}`],
    ['no map', 'sinks: {}', `sinks: {}\nconnectors:\n${block}`],
    ['an empty map', 'connectors: {} # none\nwatch: true\n', `connectors: # none\n${block}watch: true\n`],
    ['nothing', 'connectors: # none\nwatch: true\n', `connectors: # none\n${block}watch: true\n`],
    ['no line end', 'connectors:\n  a: { id: b }', `connectors:\n  a: { id: b }\n${block.trimEnd()}`],
    ['an empty last value', 'connectors:\n  a:\nwatch: true\n', `connectors:\n  a:\n${block}watch: true\n`],
    [
      'another indentation',
      'connectors:\n    a:\n        id: |\n            b\n\n\nwatch: true\n',
      `connectors:\n    a:\n        id: |\n            b\n${block.replaceAll(/^ {2}/gm, '    ')}\n\nwatch: true\n`,
    ],
    [
      'lines of Windows',
      'connectors:\r\n  a: {}\r\n',
      `connectors:\n  a: {}\n${block}`.replaceAll('\n', '\r\n'),
    ],
    [
      'one line',
      'connectors: { a: { id: b } }\n',
      'connectors: { a: { id: b }, "acme": {"definition":"email-marketing","id":"12","schedule":{"every":"1h"}} }\n',
    ],
    [
      'JSON',
      '{\n  "connectors": {\n    "a": {"id": "b"}\n  }\n}\n',
      '{\n  "connectors": {\n    "a": {"id": "b"},\n    "acme": {"definition":"email-marketing","id":"12","schedule":{"every":"1h"}}\n  }\n}\n',
    ],
  ])('is written where there is %s', (_what, before, after) => {
    expect(withYamlEntry(before, 'connectors', 'acme', entry)).toBe(after);
  });

  it('is refused where it would change something else', () => {
    expect(withYamlEntry('watch: true\n...\n', 'connectors', 'acme', entry)).toBeNull();
    expect(withYamlEntry('connectors: *all\nx: &all { a: {} }\n', 'connectors', 'acme', entry)).toBeNull();
  });
});

describe('an entry removed from a YAML file', () => {
  it.each([
    ['alone', 'connectors: # ours\n  a:\n    id: b\nwatch: true\n', 'connectors: {} # ours\nwatch: true\n'],
    [
      'first',
      'connectors:\n  # One.\n  a:\n    id: b # b\n\n  c: {}\n',
      'connectors:\n  # One.\n\n  c: {}\n',
    ],
    [
      'between blank lines',
      'connectors:\n  c: {}\n\n  a: {}\n\n  d: {}\n',
      'connectors:\n  c: {}\n\n  d: {}\n',
    ],
    [
      'last',
      'connectors:\n  c: {}\n  a:\n    x:\n      - 1\n      - y: 2\n# End.\n',
      'connectors:\n  c: {}\n# End.\n',
    ],
    ['in one line', 'connectors: { a: {}, c: {} }\n', 'connectors: { c: {} }\n'],
    ['last in one line', 'connectors: { c: {}, a: {} }\n', 'connectors: { c: {} }\n'],
    ['alone in one line', 'connectors: { a: {} }\n', 'connectors: {  }\n'],
  ])('leaves the others as they were: %s', (_where, before, after) => {
    expect(withoutYamlEntry(before, 'connectors', 'a')).toBe(after);
  });

  it('is refused where others refer to it, and where it is not there', () => {
    expect(withoutYamlEntry('connectors:\n  a: &a { id: b }\n  c: *a\n', 'connectors', 'a')).toBeNull();
    expect(withoutYamlEntry('connectors:\n  c: {}\n', 'connectors', 'a')).toBeNull();
    expect(withoutYamlEntry('watch: true\n', 'connectors', 'a')).toBeNull();
  });
});
