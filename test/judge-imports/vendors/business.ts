import { afterRecord, numbered, offset, single, token } from '../paging-kinds.ts';
import { basic, many, type Vendor } from '../vendor.ts';

/** Payments, shops, customers and applicants. */
export const business: Readonly<Record<string, Vendor>> = {
  stripe: {
    docs: 'docs.stripe.com/api/pagination: starting_after is an object id, has_more, limit 1 to 100 (10)',
    base: '',
    credentials: { api_key: 'sk_test_1' },
    signed: { Authorization: 'Bearer sk_test_1' },
    all: {
      at: 'data',
      pages: afterRecord({
        send: 'starting_after',
        field: 'id',
        more: 'has_more',
        size: { name: 'limit', max: 100, usual: 10, over: 'refuse' },
      }),
    },
    edits: { entities: { subscriptions: { values: { status: 'all' } } } },
    entities: {
      ...many('customers invoices charges refunds products balance_transactions payment_intents'),
      ...many('disputes payouts'),
      // Without those that were canceled otherwise.
      subscriptions: { whole: { status: /^all$/ } },
    },
  },
  chargebee: {
    docs: 'apidocs.chargebee.com/docs/api#pagination: offset takes next_offset, limit 1 to 100 (10); list[].customer',
    base: '/api/v2',
    credentials: { api_key: 'cb-1', site: 'shop' },
    signed: { Authorization: basic('cb-1', '') },
    all: {
      at: 'list',
      each: '{entity}',
      pages: token({
        send: 'offset',
        told: 'next_offset',
        size: { name: 'limit', max: 100, usual: 10, over: 'refuse' },
      }),
    },
    entities: many(
      'customer subscription invoice credit_note coupon transaction event order item item_price payment_source',
    ),
  },
  orb: {
    docs: 'docs.withorb.com/api-reference/pagination: cursor, limit 1 to 100 (20); pagination_metadata.next_cursor, has_more',
    base: '/v1',
    credentials: { api_key: 'orb-1' },
    signed: { Authorization: 'Bearer orb-1' },
    all: {
      at: 'data',
      pages: token({
        send: 'cursor',
        told: 'pagination_metadata.next_cursor',
        more: 'pagination_metadata.has_more',
        end: 'null',
        size: { name: 'limit', max: 100, usual: 20, over: 'refuse' },
      }),
    },
    entities: many('customers subscriptions plans invoices'),
  },
  woocommerce: {
    docs: 'woocommerce.github.io/woocommerce-rest-api-docs/#pagination: page from 1, per_page to 100 (10), X-WP-Total, Link',
    base: '/wp-json/wc/v3',
    credentials: { api_key: 'ck_1', api_secret: 'cs_1', shop: 'shop.example' },
    signed: { Authorization: basic('ck_1', 'cs_1') },
    edits: {
      entities: {
        customers: { values: { role: 'all' } },
        product_reviews: { values: { status: 'all' } },
        tax_classes: { key: ['slug'] },
      },
    },
    all: {
      pages: numbered({
        page: 'page',
        size: { name: 'per_page', max: 100, usual: 10, over: 'refuse' },
        totalHeader: 'X-WP-Total',
        hasLink: true,
      }),
    },
    entities: {
      ...many('orders products coupons product_categories product_tags product_attributes tax_rates'),
      // Those with the role of a customer otherwise.
      customers: { whole: { role: /^all$/ } },
      // The approved ones otherwise.
      product_reviews: { whole: { status: /^all$/ } },
      product_variations: { of: { product_id: 'products.id' } },
      order_notes: { of: { order_id: 'orders.id' }, pages: single() },
      refunds: { of: { order_id: 'orders.id' } },
      payment_gateways: { pages: single() },
      shipping_methods: { pages: single() },
      shipping_zones: { pages: single() },
      tax_classes: { pages: single(), key: 'slug' },
    },
  },
  ashby: {
    docs: 'developers.ashbyhq.com/docs/pagination-and-incremental-sync: cursor and limit (to 100) in the body; nextCursor',
    base: '',
    credentials: { api_key: 'ashby-1' },
    signed: { Authorization: basic('ashby-1', '') },
    all: {
      at: 'results',
      pages: token({
        send: 'cursor',
        told: 'nextCursor',
        size: { name: 'limit', max: 100, usual: 100 },
        more: 'moreDataAvailable',
      }),
    },
    entities: many(
      'candidates applications jobs departments locations users job_postings sources archive_reasons candidate_tags custom_fields feedback_form_definitions',
    ),
  },
  greenhouse: {
    docs: 'developers.greenhouse.io/harvest.html#pagination: per_page 1 to 500 (100), page from 1, Link; root arrays',
    base: '/v1',
    credentials: { api_key: 'gh-1' },
    signed: { Authorization: basic('gh-1', '') },
    all: {
      pages: numbered({ page: 'page', size: { name: 'per_page', max: 500, usual: 100 }, hasLink: true }),
    },
    entities: many(
      'candidates applications jobs offers users departments offices job_posts sources scheduled_interviews',
    ),
  },
  'zoho-crm': {
    docs: 'www.zoho.com/crm/developer/docs/api/v2/get-records.html: page from 1, per_page to 200; info.more_records',
    base: '',
    credentials: { client_id: 'c', client_secret: 's', refresh_token: 'r', dc_region: 'com' },
    signed: { Authorization: 'Zoho-oauthtoken made-up-access-token' },
    all: {
      at: 'data',
      pages: numbered({
        page: 'page',
        size: { name: 'per_page', max: 200, usual: 200, over: 'refuse' },
        more: 'info.more_records',
      }),
    },
    entities: many('leads contacts accounts deals campaigns tasks events calls products quotes invoices'),
  },
  hubspot: {
    docs: 'developers.hubspot.com/docs/api/crm/contacts: after takes paging.next.after, limit to 100 (10); no paging at the end',
    base: '',
    credentials: { private_app_token: 'pat-1' },
    signed: { Authorization: 'Bearer pat-1' },
    all: {
      at: 'results',
      pages: token({
        send: 'after',
        told: 'paging.next.after',
        size: { name: 'limit', max: 100, usual: 10, over: 'refuse' },
        besides: (next, self) => ({ 'paging.next.link': `${self.origin}${self.pathname}?after=${next}` }),
      }),
    },
    entities: {
      ...many('contacts companies deals tickets'),
      schemas: { pages: single() },
      objects: { of: { objectType: 'schemas.fullyQualifiedName' } },
    },
  },
  'paypal-transaction': {
    docs: 'developer.paypal.com/docs/api: products and invoices by page and page_size; payments by start_id, next_id, count to 20',
    base: '',
    credentials: { client_id: 'c', client_secret: 's' },
    signed: { Authorization: 'Bearer made-up-access-token' },
    edits: {
      values: { start_date: '2026-10-01T00:00:00Z', end_date: '2026-10-31T00:00:00Z' },
    },
    all: {},
    entities: {
      transactions: {
        at: 'transaction_details',
        needs: { start_date: /^2026-10-01T/, end_date: /^2026-10-31T/ },
        pages: numbered({
          page: 'page',
          size: { name: 'page_size', max: 500, usual: 100, over: 'refuse' },
          total: 'total_items',
          pages: 'total_pages',
        }),
      },
      list_products: {
        at: 'products',
        pages: numbered({ page: 'page', size: { name: 'page_size', max: 20, usual: 10, over: 'refuse' } }),
      },
      list_payments: {
        at: 'payments',
        pages: token({
          send: 'start_id',
          told: 'next_id',
          size: { name: 'count', max: 20, usual: 10, over: 'refuse' },
        }),
      },
      search_invoices: {
        at: 'items',
        pages: numbered({
          page: 'page',
          size: { name: 'page_size', max: 100, usual: 20, over: 'refuse' },
          total: 'total_items',
          pages: 'total_pages',
        }),
      },
    },
  },
  mailchimp: {
    docs: 'mailchimp.com/developer/marketing/docs/methods-parameters/#pagination: offset, count to 1000 (10), total_items',
    base: '/3.0',
    credentials: { api_key: 'key-us1', data_center: 'us1' },
    signed: { Authorization: basic('anystring', 'key-us1') },
    edits: {
      entities: {
        tags: { key: ['list_id', 'id'], paging: 'single' },
        email_activity: { key: ['campaign_id', 'email_id'] },
        unsubscribes: { key: ['campaign_id', 'email_id'] },
      },
    },
    all: {
      at: '{entity}',
      pages: offset({
        offset: 'offset',
        size: { name: 'count', max: 1000, usual: 10, over: 'refuse' },
        total: 'total_items',
      }),
    },
    entities: {
      ...many('campaigns lists reports automations'),
      list_members: { at: 'members', of: { list_id: 'lists.id' } },
      tags: { of: { list_id: 'lists.id' }, pages: single('total_items') },
      segments: { of: { list_id: 'lists.id' } },
      segment_members: { at: 'members', of: { list_id: 'lists.id', segment_id: 'segments.id' } },
      interest_categories: { at: 'categories', of: { list_id: 'lists.id' } },
      interests: { of: { list_id: 'lists.id', interest_category_id: 'interest_categories.id' } },
      email_activity: { at: 'emails', key: 'email_id', of: { campaign_id: 'campaigns.id' } },
      unsubscribes: { key: 'email_id', of: { campaign_id: 'campaigns.id' } },
    },
  },
};
