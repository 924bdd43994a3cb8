import { address, firstOnly, numbered, offset, single, token } from '../paging-kinds.ts';
import { basic, many, type Vendor } from '../vendor.ts';

const pylon = token({
  send: 'cursor',
  told: 'pagination.cursor',
  more: 'pagination.has_next_page',
  end: 'empty',
  size: { usual: 100 },
});

const sendgrid = address({
  told: '_metadata.next',
  send: 'page_token',
  end: 'absent',
  size: { name: 'page_size', max: 200, usual: 100 },
});

/** Tickets, chats, calls and incidents. */
export const support: Readonly<Record<string, Vendor>> = {
  freshdesk: {
    docs: 'developers.freshdesk.com/api/#pagination: page from 1, per_page to 100 (30), Link; root arrays',
    base: '/api/v2',
    credentials: { api_key: 'fd-1', subdomain: 'desk' },
    signed: { Authorization: basic('fd-1', 'X') },
    all: {
      pages: numbered({
        page: 'page',
        size: { name: 'per_page', max: 100, usual: 30, over: 'refuse' },
        hasLink: true,
      }),
    },
    edits: { entities: { tickets: { values: { updated_since: '1970-01-01T00:00:00Z' } } } },
    entities: {
      // Those of the last 30 days otherwise.
      tickets: { whole: { updated_since: /^19/ } },
      ...many(
        'contacts agents groups companies roles satisfaction_ratings surveys time_entries ticket_fields',
      ),
    },
  },
  'zendesk-support': {
    docs: 'developer.zendesk.com/api-reference/introduction/pagination: page from 1, per_page to 100, next_page, count',
    base: '/api/v2',
    credentials: { email: 'a@b.example', api_token: 'zd-1', subdomain: 'desk' },
    signed: { Authorization: basic('a@b.example/token', 'zd-1') },
    all: {
      at: '{entity}',
      pages: numbered({
        page: 'page',
        size: { name: 'per_page', max: 100, usual: 100 },
        total: 'count',
        nextAddress: 'next_page',
      }),
    },
    entities: {
      ...many('tickets deleted_tickets users organizations groups ticket_metrics ticket_fields brands views'),
      ...many('macros triggers automations satisfaction_ratings group_memberships organization_memberships'),
      ...many('sla_policies ticket_forms articles'),
      tags: { key: 'name' },
      ticket_comments: { at: 'comments', of: { ticket_id: 'tickets.id' } },
      article_attachments: { of: { article_id: 'articles.id' } },
      // By cursor alone: a number of a page is not known there.
      ticket_audits: {
        at: 'audits',
        pages: address({ told: 'after_url', send: 'cursor', size: { name: 'limit', max: 100, usual: 100 } }),
      },
    },
  },
  'zendesk-chat': {
    docs: 'developer.zendesk.com/api-reference/live-chat/chat-api/introduction: most listings come whole; chats by next_page, limit to 1000',
    base: '/api/v2/chat',
    credentials: { access_token: 'zc-1', subdomain: 'desk' },
    signed: { Authorization: 'Bearer zc-1' },
    all: { pages: single() },
    entities: {
      ...many('departments goals roles shortcuts skills triggers'),
      // The address of the last page leads to an empty one, which has its own address as the next.
      chats: {
        at: 'chats',
        pages: address({
          told: 'next_page',
          send: 'start_id',
          end: 'last',
          extra: { start_time: '1700000000' },
          size: { name: 'limit', max: 1000, usual: 1000 },
        }),
      },
    },
  },
  intercom: {
    docs: 'developers.intercom.com/docs/build-an-integration/learn-more/rest-apis/pagination-cursor: pages.next.starting_after, per_page to 150',
    base: '',
    credentials: { access_token: 'ic-1' },
    signed: { Authorization: 'Bearer ic-1' },
    all: {
      at: 'data',
      pages: token({
        send: 'starting_after',
        told: 'pages.next.starting_after',
        total: 'total_count',
        size: { name: 'per_page', max: 150, usual: 50, over: 'refuse' },
        nullAtEnd: 'pages.next',
      }),
    },
    entities: {
      contacts: {},
      conversations: { at: 'conversations' },
      companies: {},
      tags: { pages: single() },
      ...many('teams admins segments', { at: '{entity}', pages: single() }),
    },
  },
  'incident-io': {
    docs: 'api-docs.incident.io: after takes pagination_meta.after, page_size to 250 (25)',
    base: '',
    credentials: { api_key: 'inc-1' },
    signed: { Authorization: 'Bearer inc-1' },
    all: {
      at: '{entity}',
      pages: token({
        send: 'after',
        told: 'pagination_meta.after',
        total: 'pagination_meta.total_record_count',
        size: { name: 'page_size', max: 250, usual: 25, over: 'refuse' },
      }),
    },
    entities: {
      ...many('incidents users incident_updates schedules'),
      ...many('alerts escalations', {
        pages: token({
          send: 'after',
          told: 'pagination_meta.after',
          size: { name: 'page_size', max: 50, usual: 25, over: 'refuse' },
        }),
      }),
      ...many('incident_roles incident_statuses incident_timestamps severities custom_fields catalog_types', {
        pages: single(),
      }),
    },
  },
  pylon: {
    docs: 'docs.usepylon.com/pylon-docs/developer/api: cursor takes pagination.cursor while has_next_page; issues of 30 days',
    base: '',
    credentials: { api_token: 'py-1' },
    signed: { Authorization: 'Bearer py-1' },
    edits: { values: { start_time: '2026-10-01T00:00:00Z', end_time: '2026-10-30T00:00:00Z' } },
    all: { at: 'data', pages: pylon },
    entities: {
      issues: { needs: { start_time: /^2026-10-01T/, end_time: /^2026-10-30T/ } },
      messages: { of: { id: 'issues.id' } },
      ...many('accounts contacts teams tags users ticket_forms user_roles'),
      custom_fields: { needs: { object_type: /^(?:account|issue|contact)$/ } },
    },
  },
  gong: {
    docs: 'gong.app.gong.io/settings/api/documentation: cursor takes records.cursor, 100 each; no cursor at the end',
    base: '',
    credentials: { access_key: 'k', access_key_secret: 's' },
    signed: { Authorization: basic('k', 's') },
    edits: {
      entities: {
        settings_scorecards: { key: ['scorecard_id'] },
        settings_trackers: { key: ['tracker_id'] },
        call_transcripts: { key: ['call_id'] },
      },
    },
    all: {
      at: '{entity}',
      pages: token({
        send: 'cursor',
        told: 'records.cursor',
        total: 'records.totalRecords',
        size: { usual: 100 },
      }),
    },
    entities: {
      ...many('users calls'),
      workspaces: { pages: single() },
      settings_scorecards: { at: 'scorecards', key: 'scorecardId', pages: single() },
      settings_trackers: { at: 'keywordTrackers', key: 'trackerId', pages: single() },
      library_folders: { at: 'folders', of: { workspaceId: 'workspaces.id' }, pages: single() },
      library_folder_content: { at: 'calls', of: { folderId: 'library_folders.id' } },
      call_transcripts: { at: 'callTranscripts', key: 'callId' },
    },
  },
  slack: {
    docs: 'api.slack.com/docs/pagination: cursor takes response_metadata.next_cursor, empty at the end; limit to 1000',
    base: '/api',
    credentials: { bot_key: 'xoxb-1' },
    signed: { Authorization: 'Bearer xoxb-1' },
    all: {
      pages: token({
        send: 'cursor',
        told: 'response_metadata.next_cursor',
        end: 'empty',
        size: { name: 'limit', max: 999, usual: 100 },
      }),
    },
    entities: {
      users: { at: 'members' },
      channels: { at: 'channels' },
      channel_messages: { at: 'messages', key: 'ts', of: { channel: 'channels.id' } },
      threads: {
        at: 'messages',
        key: 'ts',
        of: { channel: 'channels.id', ts: 'channel_messages.ts' },
      },
    },
  },
  typeform: {
    docs: 'www.typeform.com/developers/create/reference/retrieve-forms: page from 1, page_size to 200 (10), total_items, page_count',
    base: '',
    credentials: { access_token: 'tf-1' },
    signed: { Authorization: 'Bearer tf-1' },
    all: {
      at: 'items',
      pages: numbered({
        page: 'page',
        size: { name: 'page_size', max: 200, usual: 10, over: 'refuse' },
        total: 'total_items',
        pages: 'page_count',
      }),
    },
    entities: {
      ...many('forms workspaces themes'),
      webhooks: { of: { form_id: 'forms.id' }, pages: single() },
      images: { at: '', pages: single() },
    },
  },
  sendgrid: {
    docs: 'www.twilio.com/docs/sendgrid/api-reference/bounces-api: offset and limit to 500; root arrays',
    base: '',
    credentials: { api_key: 'sg-1' },
    signed: { Authorization: 'Bearer sg-1' },
    edits: {
      entities: {
        bounces: { key: ['email'] },
        blocks: { key: ['email'] },
        spam_reports: { key: ['email'] },
        invalid_emails: { key: ['email'] },
        global_suppressions: { key: ['email'] },
        suppression_group_members: { key: ['email', 'group_id'] },
      },
    },
    all: {
      key: 'email',
      pages: offset({ offset: 'offset', size: { name: 'limit', max: 500, usual: 500, over: 'refuse' } }),
    },
    entities: {
      ...many('bounces blocks spam_reports invalid_emails global_suppressions'),
      suppression_group_members: { fields: { group_id: 17 } },
      ...many('lists campaigns singlesends', { key: 'id', at: 'result', pages: sendgrid }),
      singlesend_stats: { key: 'id', at: 'results', pages: sendgrid },
      templates: { key: 'id', at: 'templates', needs: { generations: /./ }, pages: sendgrid },
      // 50 of them at most, and nothing leads to the others.
      contacts: {
        key: 'id',
        at: 'result',
        pages: firstOnly(50),
      },
      suppression_groups: { key: 'id', pages: single() },
      segments: { key: 'id', at: 'results', pages: single() },
    },
  },
};
