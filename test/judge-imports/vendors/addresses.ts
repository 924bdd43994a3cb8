import { address, single, token } from '../paging-kinds.ts';
import { basic, many, type Vendor } from '../vendor.ts';

const product = { of: { product_id: 'products.id' } };
const order = { of: { order_id: 'orders.id' } };

/** Services whose answers have the next page's address, with parameters that no operation declares. */
export const addresses: Readonly<Record<string, Vendor>> = {
  harvest: {
    docs: 'help.getharvest.com/api-v2/introduction/overview/pagination: links.next has cursor, per_page (to 2000) and ref',
    base: '/v2',
    credentials: { token: 'hv-1', account_id: '77' },
    signed: { Authorization: 'Bearer hv-1' },
    headers: { 'Harvest-Account-Id': '77' },
    all: {
      at: '{entity}',
      pages: address({
        told: 'links.next',
        send: 'cursor',
        keeps: ['per_page'],
        extra: { ref: 'next_cursor' },
        total: 'total_entries',
        size: { name: 'per_page', max: 2000, usual: 2000, over: 'refuse' },
      }),
    },
    entities: {
      ...many(
        'users clients contacts projects tasks time_entries invoices invoice_item_categories estimates',
      ),
      ...many('estimate_item_categories expenses expense_categories roles user_assignments task_assignments'),
    },
  },
  shopify: {
    docs: 'shopify.dev/docs/api/admin-rest/usage/pagination: Link, page_info with limit (to 250) and nothing else',
    base: '/admin/api/2025-01',
    credentials: { api_key: 'shpat_1', shop: 'shop' },
    signed: { 'X-Shopify-Access-Token': 'shpat_1' },
    all: {
      at: '{entity}',
      pages: address({
        told: 'Link',
        send: 'page_info',
        keeps: ['limit'],
        isAlone: true,
        size: { name: 'limit', max: 250, usual: 50, over: 'refuse' },
      }),
    },
    entities: {
      ...many(
        'customers orders products price_rules custom_collections smart_collections collects draft_orders',
      ),
      abandoned_checkouts: { at: 'checkouts' },
      tender_transactions: {},
      locations: { pages: single() },
      countries: { pages: single() },
      product_variants: { ...product, at: 'variants' },
      product_images: { ...product, at: 'images', pages: single() },
      discount_codes: { of: { price_rule_id: 'price_rules.id' } },
      fulfillments: order,
      order_refunds: { ...order, at: 'refunds' },
      transactions: { ...order, pages: single() },
      fulfillment_orders: { ...order, pages: single() },
      customer_address: { at: 'addresses', of: { customer_id: 'customers.id' } },
      metafield_shops: { at: 'metafields' },
      metafield_customers: { at: 'metafields', of: { customer_id: 'customers.id' } },
      metafield_products: { ...product, at: 'metafields' },
      metafield_orders: { ...order, at: 'metafields' },
      metafield_draft_orders: { at: 'metafields', of: { draft_order_id: 'draft_orders.id' } },
      metafield_locations: { at: 'metafields', of: { location_id: 'locations.id' } },
      metafield_product_variants: { at: 'metafields', of: { variant_id: 'product_variants.id' } },
      metafield_smart_collections: { at: 'metafields', of: { collection_id: 'smart_collections.id' } },
      metafield_product_images: {
        at: 'metafields',
        of: { product_id: 'product_images.product_id', image_id: 'product_images.id' },
      },
    },
  },
  twilio: {
    docs: 'www.twilio.com/docs/usage/twilios-response#pagination: next_page_uri is a path with Page and PageToken; PageSize to 1000',
    base: '/2010-04-01',
    credentials: { account_sid: 'AC1', auth_token: 't' },
    signed: { Authorization: basic('AC1', 't') },
    all: {
      at: '{entity}',
      key: 'sid',
      pages: address({
        told: 'next_page_uri',
        send: 'PageToken',
        extra: { Page: '1' },
        isRelative: true,
        size: { name: 'PageSize', max: 1000, usual: 50 },
      }),
    },
    entities: {
      accounts: {},
      ...many(
        'calls messages incoming_phone_numbers recordings conferences addresses queues transcriptions',
        {
          of: { AccountSid: 'accounts.sid' },
        },
      ),
      outgoing_caller_ids: { of: { AccountSid: 'accounts.sid' } },
    },
  },
  sentry: {
    docs: 'docs.sentry.io/api/pagination: Link with rel, results and cursor; 100 each; results="false" ends',
    base: '/api/0',
    credentials: { auth_token: 'sntrys_1', hostname: 'sentry.io' },
    signed: { Authorization: 'Bearer sntrys_1' },
    edits: {
      values: { organization_slug: 'acme', project_slug: 'web' },
      entities: { issues: { values: { query: '' } } },
    },
    all: { pages: address({ told: 'Link', send: 'cursor', hasResults: true, size: { usual: 100 } }) },
    entities: {
      projects: {},
      // The unresolved ones otherwise.
      issues: { given: { organization_slug: 'acme', project_slug: 'web' }, whole: { query: /^$/ } },
      events: { given: { organization_slug: 'acme', project_slug: 'web' } },
      releases: { given: { organization_slug: 'acme' } },
    },
  },
  'snapchat-marketing': {
    docs: 'developers.snap.com/api/marketing-api/Ads-API/pagination: paging.next_link has cursor and limit (50 to 1000)',
    base: '/v1',
    credentials: { client_id: 'c', client_secret: 's', refresh_token: 'r' },
    signed: { Authorization: 'Bearer made-up-access-token' },
    all: {
      at: '{entity}',
      pages: address({
        told: 'paging.next_link',
        send: 'cursor',
        end: 'absent',
        size: { name: 'limit', max: 1000, usual: 100 },
      }),
      of: { ad_account_id: 'adaccounts.id' },
    },
    entities: {
      organizations: { each: 'organization', of: {}, pages: single() },
      adaccounts: { each: 'adaccount', of: { organization_id: 'organizations.id' } },
      campaigns: { each: 'campaign' },
      adsquads: { each: 'adsquad' },
      ads: { each: 'ad' },
      creatives: { each: 'creative' },
      media: { each: 'media' },
      segments: { each: 'segment' },
    },
  },
  'amazon-seller-partner': {
    docs: 'developer-docs.amazon.com/sp-api/docs/orders-api-v0-reference: NextToken in query and payload, MaxResultsPerPage to 100',
    base: '',
    credentials: {
      lwa_app_id: 'a',
      lwa_client_secret: 's',
      refresh_token: 'r',
      access_token: 'made-up-access-token',
    },
    signed: { 'x-amz-access-token': 'made-up-access-token' },
    edits: {
      server: { region: 'na' },
      values: { MarketplaceIds: 'ATVPDKIKX0DER', marketplaceIds: 'ATVPDKIKX0DER' },
    },
    all: {},
    entities: {
      orders: {
        at: 'payload.Orders',
        key: 'AmazonOrderId',
        needs: { MarketplaceIds: /ATV/ },
        pages: token({
          send: 'NextToken',
          told: 'payload.NextToken',
          size: { name: 'MaxResultsPerPage', max: 100, usual: 100, over: 'refuse' },
        }),
      },
      order_items: {
        at: 'payload.OrderItems',
        key: 'OrderItemId',
        of: { orderId: 'orders.AmazonOrderId' },
        pages: token({ send: 'NextToken', told: 'payload.NextToken', size: { usual: 100 } }),
      },
      catalog_items: {
        at: 'items',
        key: 'asin',
        needs: { marketplaceIds: /ATV/ },
        pages: token({
          send: 'pageToken',
          told: 'pagination.nextToken',
          size: { name: 'pageSize', max: 20, usual: 10, over: 'refuse' },
        }),
      },
      reports: {
        at: 'reports',
        key: 'reportId',
        pages: token({
          send: 'nextToken',
          told: 'nextToken',
          size: { name: 'pageSize', max: 100, usual: 10, over: 'refuse' },
        }),
      },
    },
  },
};
