import * as z from 'zod';
import { strictObject, textAs } from '../schema-problems.ts';
import { pathText } from './sent-texts.ts';
import { answerPath, type AnswerPath } from './template.ts';

export type RecordsFile = z.infer<ReturnType<typeof recordsFile>>;

/** The place of the records in an answer. */
export interface RecordsPlace {
  /** The array; with `isOne` the record. Empty: the answer itself. */
  readonly path: AnswerPath;
  /** The place of the record, or of an array of records, within an element. Null: the element is the record. */
  readonly member: AnswerPath | null;
  /** One object is there: the only record. */
  readonly isOne: boolean;
}

export type EmptyForm = 'null' | 'missing' | 'noContent';

/** Forms that stand for an empty array in an answer without records; `noContent`: an answer without a body. */
export function emptyFile() {
  const forms = ['null', 'missing', 'noContent'] as const;
  const form = z.preprocess((value) => (value === null ? 'null' : value), z.enum(forms));
  return z.array(form, { error: `expected a list of ${forms.join(', ')}` });
}

/**
 * `items`, an empty text for the answer itself, `list[*].customer` for records that are wrapped, or
 * `{ path, one: true }` for one object.
 */
export function recordsFile() {
  const place = strictObject({ path: textAs(wholeOrPath), one: z.literal(true) });
  return z.union([textAs(checkRecords), place], {
    error: 'expected a path such as items or list[*].customer, or { path: item, one: true }',
  });
}

/** Parses the place of the records in a file that was checked. */
export function recordsPlace(file: RecordsFile): RecordsPlace {
  if (typeof file !== 'string') return { path: answerPath(file.path), member: null, isOne: true };
  const [path = '', member] = file.split(eachElement);
  return {
    path: answerPath(path),
    member: member === undefined ? null : answerPath(member.slice(1)),
    isOne: false,
  };
}

const eachElement = '[*]';

function checkRecords(text: string, note: (message: string) => void): string {
  const [path = '', member, ...others] = text.split(eachElement);
  if (others.length > 0) note('expected [*] once: only one list is gone through');
  else if (member !== undefined && !member.startsWith('.')) {
    note(
      'expected a member behind [*], such as list[*].customer; leave [*] out where its elements are the records',
    );
  } else {
    wholeOrPath(path, note);
    if (member !== undefined) pathText(member.slice(1), note);
  }
  return text;
}

export function wholeOrPath(path: string, note: (message: string) => void): string {
  return path === '' ? path : pathText(path, note);
}
