import { address, single, token } from '../paging-kinds.ts';
import { basic, many, type Listing, type Vendor } from '../vendor.ts';

const refreshed = { client_id: 'c', client_secret: 's', refresh_token: 'r' };
const fresh = { Authorization: 'Bearer made-up-access-token' };

function klaviyo(size: Parameters<typeof address>[0]['size']): Partial<Listing> {
  return { pages: address({ told: 'links.next', send: 'page[cursor]', size }) };
}

function google(name: string, max: number, usual: number) {
  return token({ send: 'pageToken', told: 'nextPageToken', size: { name, max, usual, over: 'refuse' } });
}

const bookmark = token({
  send: 'bookmark',
  told: 'bookmark',
  end: 'null',
  size: { name: 'page_size', max: 250, usual: 25, over: 'refuse' },
});
const graph = token({
  send: 'after',
  told: 'paging.cursors.after',
  end: 'last',
  size: { name: 'limit', max: 100, usual: 25 },
});
const adAccount = { of: { account_id: 'ad_accounts.account_id' } };
const pinned = { of: { ad_account_id: 'ad_accounts.id' } };

/** Campaigns, advertising, mail and analytics. */
export const marketing: Readonly<Record<string, Vendor>> = {
  klaviyo: {
    docs: 'developers.klaviyo.com/en/docs/pagination: links.next has page[cursor], page[size]; revision is required',
    base: '/api',
    credentials: { api_key: 'pk_1' },
    signed: { Authorization: 'Klaviyo-API-Key pk_1' },
    headers: { revision: '2024-10-15' },
    all: { at: 'data' },
    entities: {
      profiles: klaviyo({ name: 'page[size]', max: 100, usual: 20, over: 'refuse' }),
      lists: klaviyo({ name: 'page[size]', max: 10, usual: 10, over: 'refuse' }),
      campaigns: { ...klaviyo({ usual: 100 }), needs: { filter: /messages\.channel/ } },
      events: klaviyo({ name: 'page[size]', max: 1000, usual: 200, over: 'refuse' }),
      metrics: klaviyo({ usual: 200 }),
      flows: klaviyo({ name: 'page[size]', max: 50, usual: 50, over: 'refuse' }),
      email_templates: klaviyo({ name: 'page[size]', max: 10, usual: 10, over: 'refuse' }),
    },
  },
  'facebook-marketing': {
    docs: 'developers.facebook.com/docs/graph-api/results: after takes paging.cursors.after, which the last page has too',
    base: '/v24.0',
    credentials: { account_key: 'fb-1' },
    signed: { Authorization: 'Bearer fb-1' },
    edits: {
      entities: {
        ads_insights: { key: 'none' },
        pixel_stats: { key: 'none', values: { start_time: null, end_time: null, aggregation: null } },
        ad_library: { values: { ad_active_status: 'ALL' } },
      },
    },
    all: { at: 'data', pages: graph },
    entities: {
      ad_accounts: {},
      ...many('campaigns ad_sets ads ad_creatives custom_conversions images videos pixels', adAccount),
      ads_insights: { ...adAccount, key: 'ad_id' },
      pixel_stats: { of: { pixel_id: 'pixels.id' }, key: 'value', pages: single() },
      // The active ones otherwise.
      ad_library: { needs: { ad_reached_countries: /./ }, whole: { ad_active_status: /^ALL$/ } },
    },
  },
  pinterest: {
    docs: 'developers.pinterest.com/docs/reference/pagination: bookmark in query and answer, page_size 1 to 250 (25)',
    base: '/v5',
    credentials: refreshed,
    signed: fresh,
    all: { at: 'items', pages: bookmark },
    entities: {
      ...many('ad_accounts boards catalogs catalogs_feeds catalogs_product_groups'),
      ...many('campaigns ad_groups ads audiences conversion_tags customer_lists', pinned),
      ...many('board_sections board_pins', { of: { board_id: 'boards.id' } }),
      keywords: { of: { ad_account_id: 'ad_accounts.id', ad_group_id: 'ad_groups.id' } },
    },
  },
  'linkedin-ads': {
    docs: 'learn.microsoft.com/en-us/linkedin/shared/api-guide/concepts/pagination: pageToken takes metadata.nextPageToken, pageSize to 1000',
    base: '/rest',
    credentials: refreshed,
    signed: fresh,
    headers: { 'LinkedIn-Version': '202601' },
    all: {
      at: 'elements',
      pages: token({
        send: 'pageToken',
        told: 'metadata.nextPageToken',
        size: { name: 'pageSize', max: 1000, usual: 100, over: 'refuse' },
      }),
    },
    entities: {
      accounts: { needs: { q: /^search$/ } },
      campaigns: { needs: { q: /^search$/ }, of: { account_id: 'accounts.id' } },
      campaign_groups: { needs: { q: /^search$/ }, of: { account_id: 'accounts.id' } },
      creatives: { needs: { q: /^criteria$/ }, of: { account_id: 'accounts.id' } },
    },
  },
  gmail: {
    docs: 'developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages/list: pageToken, maxResults to 500 (100)',
    base: '',
    credentials: { ...refreshed, access_token: 'made-up-access-token' },
    signed: fresh,
    all: { at: '{entity}', pages: google('maxResults', 500, 100) },
    entities: { ...many('messages drafts threads'), labels: { pages: single() } },
  },
  'google-drive': {
    docs: 'developers.google.com/workspace/drive/api/reference/rest/v3: pageToken takes nextPageToken, pageSize to 1000 (files)',
    base: '',
    credentials: { ...refreshed, access_token: 'made-up-access-token' },
    signed: fresh,
    all: { at: '{entity}' },
    entities: {
      files: { pages: google('pageSize', 1000, 100) },
      drives: { pages: google('pageSize', 100, 10) },
      permissions: { of: { fileId: 'files.id' }, pages: google('pageSize', 100, 100) },
      comments: { of: { fileId: 'files.id' }, pages: google('pageSize', 100, 20), needs: { fields: /./ } },
      replies: {
        of: { fileId: 'files.id', commentId: 'comments.id' },
        pages: google('pageSize', 100, 20),
        needs: { fields: /./ },
      },
      revisions: { of: { fileId: 'files.id' }, pages: google('pageSize', 1000, 200) },
    },
  },
  'google-search-console': {
    docs: 'developers.google.com/webmaster-tools/v1/sites/list: one answer; searchAnalytics by startRow and rowLimit',
    base: '/webmasters/v3',
    credentials: refreshed,
    signed: fresh,
    edits: { entities: { sitemaps: { key: ['site_url', 'path'] } } },
    all: { pages: single() },
    entities: {
      sites: { at: 'siteEntry', key: 'siteUrl' },
      sitemaps: { at: 'sitemap', key: 'path', of: { siteUrl: 'sites.siteUrl' } },
    },
  },
  amplitude: {
    docs: 'amplitude.com/docs/apis/analytics: annotations, cohorts and events come whole',
    base: '/api',
    credentials: { api_key: 'k', secret_key: 's' },
    signed: { Authorization: basic('k', 's') },
    all: { pages: single() },
    entities: { annotations: { at: 'data' }, cohorts: { at: 'cohorts' }, events_list: { at: 'data' } },
  },
};
