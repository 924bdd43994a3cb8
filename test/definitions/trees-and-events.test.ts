import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { ProblemsError } from '../../src/core/problems.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('a tree of listings is refused', () => {
  it.each([
    [
      'whose flag is a text',
      'flag: has_children',
      'flag: object',
      'recursive.flag: expected a field of type boolean, object is of type string',
    ],
    [
      'whose depth is not declared',
      'depth: integer',
      'dept: integer',
      'recursive.depthField: no such field: "depth"; did you mean "dept"?',
    ],
    [
      'that begins nowhere',
      'param: block_id',
      'param: page_size',
      'blocks.parents.0.params: expected page_size, which begins the tree',
    ],
    [
      'whose records do not say which tree they are of',
      'inject: { page_id: block_id }',
      'inject: {}',
      'blocks.parents.0.inject: expected page_id: block_id',
    ],
    [
      'that is deeper than any call stack should be',
      'maxDepth: 30',
      'maxDepth: 101',
      'recursive.maxDepth: expected at most 100, got 101',
    ],
  ])('%s', (_, from, to, expected) => {
    expect(problemsWith('workspace-notes', from, to)).toContain(expected);
  });
});

describe('an exploded array is refused', () => {
  it.each([
    [
      'whose table has a reserved name',
      'into: email_activity_events',
      'into: constructor',
      'explode.into: constructor is reserved',
    ],
    [
      'that is none',
      'field: activity\n',
      'field: email_id\n',
      'explode.field: expected an array field; email_id is of type string',
    ],
    [
      'that does not exist',
      'field: activity\n',
      'field: activities\n',
      'there is no field "activities"; did you mean "activity"?',
    ],
    [
      'with a carried field that does not exist',
      'carry: [campaign_id,',
      'carry: [campaign,',
      'explode.carry.0: no such field: "campaign"',
    ],
    [
      'with a key of nothing',
      'action, type, url, ip]',
      'action, type, url, ipp]',
      'explode.key.6: no such field: "ipp"; did you mean "ip"?',
    ],
    [
      'with a field twice',
      'action: string\n        timestamp',
      'email_id: string\n        timestamp',
      'explode.fields.email_id: is also carried over',
    ],
  ])('%s', (_, from, to, expected) => {
    expect(problemsWith('email-marketing', from, to)).toContain(expected);
  });
});

function problemsWith(name: string, from: string, to: string): string {
  const text = readFileSync(path.join(builtInDefinitionsFolder, `${name}.yaml`), 'utf8');
  expect(text).toContain(from);
  writeFileSync(path.join(folder, 'changed.yaml'), text.replace(from, to));
  try {
    loadDefinitions([folder]);
  } catch (error) {
    if (error instanceof ProblemsError) return error.message;
    throw error;
  }
  return '';
}
