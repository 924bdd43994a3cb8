import { expect, it } from 'vitest';
import { hideValue } from '../../src/settings/config-files.ts';

it.each([
  ['no such sink: "hush"; did you mean "bush"?', 'no such sink: [from outside]'],
  ['no such sink: "hu\\"sh"; known are a, b', 'no such sink: [from outside]; known are a, b'],
  [
    'status: expected one of a, b, got "hush"; did you mean "a"?',
    'status: expected one of a, b, got [from outside]',
  ],
  ['no connector matches "hush"; the config has a', 'no connector matches [from outside]; the config has a'],
  ['count: expected at most 5, got 4711', 'count: expected at most 5, got [from outside]'],
  ['"hush" is no parent of tags: it has none', '[from outside] is no parent of tags: it has none'],
  ['expected 1 to 128 letters, digits, "_" and "-"', 'expected 1 to 128 letters, digits, "_" and "-"'],
])('reports %s without the value', (message, expected) => {
  expect(hideValue(message)).toBe(expected);
});
