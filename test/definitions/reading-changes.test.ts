import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { ProblemsError } from '../../src/core/problems.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

const builtIn = [...loadDefinitions([builtInDefinitionsFolder]).values()].flatMap(({ entities }) => [
  ...entities.values(),
]);

/** Entity -> what its definition declares, for those that declare something. */
function said(what: (entity: Entity) => unknown): Record<string, unknown> {
  return Object.fromEntries(
    builtIn.flatMap((entity) => {
      const value = what(entity);
      return value === null || value === undefined ? [] : [[entity.name, value]];
    }),
  );
}

describe('the built-in definitions', () => {
  it('read only what changed where the service can say it', () => {
    expect(said(({ incremental }) => incremental)).toEqual({
      list_members: {
        kind: 'keyset',
        field: 'last_changed',
        sinceParam: 'since_last_changed',
        lookbackMs: 60_000,
      },
      email_activity: {
        kind: 'since',
        field: 'activity.timestamp',
        sinceParam: 'since',
        lookbackMs: 3_600_000,
      },
      pages: newestEditFirst,
      data_sources: newestEditFirst,
      documents: { kind: 'since', field: 'updated_at', sinceParam: 'updated_since', lookbackMs: 2_000 },
    });
    expect(said(({ parents }) => parents.find(({ marker }) => marker !== null)?.marker)).toEqual({
      blocks: { field: 'last_edited_time', settlesMs: 120_000 },
      comments: { field: 'last_edited_time', settlesMs: 120_000 },
      attachments: { field: 'updated_at', settlesMs: 1_000 },
    });
  });

  it('count a record as deleted only as far as its listing is reliable', () => {
    expect(said(({ deletes }) => (deletes === 'sweep' ? null : deletes))).toEqual({
      list_members: 'confirm',
      email_activity: 'never',
      unsubscribes: 'never',
      users: 'confirm',
      pages: 'confirm',
      data_sources: 'confirm',
      blocks: 'confirm',
      documents: 'confirm',
    });
    expect(said(({ growsOnly }) => (growsOnly ? true : null))).toEqual({
      email_activity: true,
      unsubscribes: true,
    });
    expect(said(({ unlisted }) => unlisted[0]?.field)).toEqual({
      list_members: 'status',
      pages: 'in_trash',
      data_sources: 'in_trash',
      blocks: 'in_trash',
    });
  });

  it('know what a whole record has where the service may show a part of it', () => {
    expect(said(({ whole }) => (whole.length === 0 ? null : whole.join(' ')))).toEqual({
      users: 'type',
      pages: 'created_time last_edited_time parent properties',
      data_sources: 'created_time last_edited_time parent properties',
      blocks: 'type created_time has_children parent',
      comments: 'created_time discussion_id parent',
    });
  });

  it('take the bounds of a backfill where the service has both', () => {
    expect(said(({ window }) => window?.since)).toEqual({
      lists: 'since_date_created',
      campaigns: 'since_send_time',
      automations: 'since_create_time',
      reports: 'since_send_time',
      list_members: 'since_last_changed',
      segments: 'since_created_at',
      documents: 'updated_since',
    });
  });
});

const newestEditFirst = {
  kind: 'newestFirst',
  field: 'last_edited_time',
  params: { sort: { timestamp: 'last_edited_time', direction: 'descending' } },
  lookbackMs: 120_000,
};

describe('a way to read only what changed is refused', () => {
  const keyset = 'field: last_changed, sinceParam: since_last_changed';
  it.each([
    [
      'with a kind that does not exist',
      'email-marketing',
      'kind: keyset,',
      'kind: keysets,',
      'incremental.kind: expected kind: keyset, since or newestFirst',
    ],
    [
      'with a change value that does not exist',
      'email-marketing',
      keyset,
      'field: last_change, sinceParam: since_last_changed',
      'list_members.incremental.field: no such field: "last_change"; did you mean "last_changed"?',
    ],
    [
      'with a change value that is no time',
      'email-marketing',
      keyset,
      'field: vip, sinceParam: since_last_changed',
      'list_members.incremental.field: expected a field of type string that holds a time, vip is of type boolean',
    ],
    [
      'with a bound that the service does not know',
      'email-marketing',
      keyset,
      'field: last_changed, sinceParam: since_changed',
      'list_members.incremental.sinceParam: no such list parameter: "since_changed"',
    ],
    [
      'with a bound that is no text',
      'email-marketing',
      keyset,
      'field: last_changed, sinceParam: vip_only',
      'list_members.incremental.sinceParam: expected a list parameter of type string, vip_only is of type boolean',
    ],
    [
      'by keyset in another order',
      'email-marketing',
      'field: last_changed\n      params: { sort_field: last_changed',
      'field: timestamp_opt\n      params: { sort_field: timestamp_opt',
      'list_members.incremental.field: keyset expects the order to sort by last_changed, ascending; order sorts by timestamp_opt',
    ],
    [
      'into elements that are not declared',
      'email-marketing',
      'field: activity.timestamp',
      'field: activity.time',
      'email_activity.incremental.field: no such field: "activity.time"; did you mean "activity.type"?',
    ],
    [
      'by pages of an unknown order',
      'email-marketing',
      'growsOnly: true\n    deletes: never\n    # Only what',
      'deletes: never\n    # Only what',
      'email_activity.incremental: expected an order, or growsOnly',
    ],
    [
      'with a lookback of nothing',
      'email-marketing',
      'lookbackMs: 60000',
      'lookbackMs: 0',
      'list_members.incremental.lookbackMs: expected at least 1000, got 0',
    ],
    [
      'newest first with a sort that does not exist',
      'workspace-notes',
      'direction: descending }',
      'direction: descend }',
      'pages.incremental.params.sort: sort.direction: expected one of ascending, descending, got "descend"',
    ],
    [
      'of a tree',
      'workspace-notes',
      '    recursive:\n',
      '    incremental: *newestEditFirst\n    recursive:\n',
      'blocks.incremental: expected no tree',
    ],
    [
      'by a marker that the parent lacks',
      'workspace-notes',
      'marker: &edited { field: last_edited_time,',
      'marker: &edited { field: last_edit_time,',
      'blocks.parents.0.marker.field: no such field of pages: "last_edit_time"; did you mean "last_edited_time"?',
    ],
    [
      'by a number of children that the parent lacks',
      'email-marketing',
      'childCount: [member_count]',
      'childCount: [members_count]',
      'segment_members.parents.0.childCount.0: no such field of segments: "members_count"; did you mean "member_count"?',
    ],
    [
      'by a path in what is no object',
      'workspace-notes',
      '        params: { block_id: id }\n        inject: { page_id: block_id }',
      '        params: { block_id: url.id }\n        inject: { page_id: block_id }',
      'blocks.parents.0.params.block_id: expected a field of type object or any, url is of type string',
    ],
    [
      'by a path without a name',
      'workspace-notes',
      '        params: { block_id: id }\n        inject: { page_id: block_id }',
      '        params: { block_id: created_by. }\n        inject: { page_id: block_id }',
      'blocks.parents.0.params.block_id: expected names joined by dots, got "created_by."',
    ],
    [
      'by a sign of a cut that no request copies',
      'workspace-notes',
      'request_status: request_status }',
      'status: request_status }',
      'list.metadata: expected request_status.type, the sign of cut of the entity, and where the answer has it',
    ],
    [
      'by a marker that is no time',
      'workspace-notes',
      'marker: &edited { field: last_edited_time,',
      'marker: &edited { field: properties,',
      'blocks.parents.0.marker.field: expected a field of type string, properties is of type object',
    ],
  ])('%s', (_, name, from, to, expected) => {
    expect(problemsWith(name, [[from, to]])).toContain(expected);
  });
});

describe('what full walks and backfills rest on is refused', () => {
  it.each([
    [
      'where rows of a growing listing can be deleted',
      'growsOnly: true\n    deletes: never',
      'growsOnly: true',
      'email_activity.growsOnly: expected deletes: never beside it (got sweep)',
    ],
    [
      'where listings leave out records by a field that does not exist',
      'unlisted: [{ field: status,',
      'unlisted: [{ field: statu,',
      'list_members.unlisted.0.field: no such field: "statu"; did you mean "status"?',
    ],
    [
      'where they do by a value of another type',
      'values: [archived]',
      'values: [archived, true]',
      'list_members.unlisted.0.values.1: expected a string, the type of status, got true',
    ],
    [
      'where records are known to be whole by a field that does not exist',
      'unlisted: [{ field: status,',
      'whole: [email_adress]\n    unlisted: [{ field: status,',
      'list_members.whole.0: no such field: "email_adress"; did you mean "email_address"?',
    ],
    [
      'where they are by what their listing fills in',
      'unlisted: [{ field: status,',
      'whole: [list_id]\n    unlisted: [{ field: status,',
      'list_members.whole.0: expected a field that the service sends, list_id is filled in from the listing',
    ],
    [
      'where a bound of the window is not declared',
      'before: before_last_changed',
      'before: before_changed',
      'list_members.window.before: no such list parameter: "before_changed"',
    ],
    [
      'where both bounds are one',
      'before: before_last_changed',
      'before: since_last_changed',
      'list_members.window: expected two parameters, got since_last_changed for both bounds',
    ],
  ])('%s', (_, from, to, expected) => {
    expect(problemsWith('email-marketing', [[from, to]])).toContain(expected);
  });

  it('with everything else that is wrong in the file', () => {
    const problems = problemsWith('email-marketing', [
      [
        'field: last_changed, sinceParam: since_last_changed',
        'field: last_change, sinceParam: since_changed',
      ],
      ['before: before_last_changed', 'before: before_changed'],
      ['unlisted: [{ field: status,', 'unlisted: [{ field: state,'],
    ]);
    expect(problems.split('\n').filter((line) => line.includes('list_members'))).toHaveLength(5);
  });
});

function problemsWith(name: string, changes: readonly (readonly [string, string])[]): string {
  let text = readFileSync(path.join(builtInDefinitionsFolder, `${name}.yaml`), 'utf8');
  for (const [from, to] of changes) {
    expect(text).toContain(from);
    text = text.replace(from, to);
  }
  writeFileSync(path.join(folder, 'changed.yaml'), text);
  try {
    loadDefinitions([folder]);
  } catch (error) {
    if (error instanceof ProblemsError) return error.message;
    throw error;
  }
  return '';
}
