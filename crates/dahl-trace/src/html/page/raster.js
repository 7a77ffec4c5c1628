// Rows of slices as pixels. However many slices fall into a pixel column, it gets the mixture of their colours, each by the
// time it covers there. So the cost of a picture is that of its pixels and of the slices in view, and nothing is lost between
// pixels.

/// A line of pixels that colours are added to.
class Line {
  constructor(width) {
    this.width = width;
    this.sums = new Float32Array(3 * width);
    this.covered = new Float32Array(width);
    this.packed = new Uint32Array(width);
  }

  clear() {
    this.sums.fill(0);
    this.covered.fill(0);
  }

  add(column, share, rgb) {
    const at = 3 * column;
    this.sums[at] += share * rgb[0];
    this.sums[at + 1] += share * rgb[1];
    this.sums[at + 2] += share * rgb[2];
    this.covered[column] += share;
  }

  /// Adds a colour from `left` to `right`, in pixels, cut off at the ends of the line.
  span(left, right, rgb) {
    left = Math.max(left, 0);
    right = Math.min(right, this.width);
    if (!(right > left)) return;
    const first = Math.floor(left), last = Math.floor(right);
    if (first === last) {
      this.add(first, right - left, rgb);
      return;
    }
    this.add(first, first + 1 - left, rgb);
    for (let column = first + 1; column < last; column++) this.add(column, 1, rgb);
    if (right > last) this.add(last, right - last, rgb);
  }

  /// The colours as the canvas wants them (little-endian), with the background where nothing was added.
  pack(base) {
    for (let column = 0; column < this.width; column++) {
      const at = 3 * column;
      // More than the whole is only ever a rounding error.
      const bare = Math.max(0, 1 - this.covered[column]);
      const r = Math.min(255, this.sums[at] + bare * base[0]);
      const g = Math.min(255, this.sums[at + 1] + bare * base[1]);
      const b = Math.min(255, this.sums[at + 2] + bare * base[2]);
      this.packed[column] = 0xff000000 | (b << 16) | (g << 8) | r;
    }
    return this.packed;
  }
}

/// The part of the chart that is pixels.
class Raster {
  constructor(width, height) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.whole = new Line(width);
    this.tasks = new Line(width);
  }

  clear(rgb) {
    this.pixels.fill((0xff000000 | (rgb[2] << 16) | (rgb[1] << 8) | rgb[0]) >>> 0);
  }

  /// Draws a row from pixel `top` to `bottom`, for the time from `from` on with `scale` pixels per nanosecond. Gaps take the
  /// middle of the row, or are paler where there is no room for that.
  row(row, colours, base, from, scale, top, bottom) {
    const { whole, tasks } = this;
    const width = whole.width, until = from + width / scale;
    const isTall = bottom - top >= 9;
    whole.clear();
    if (isTall) tasks.clear();
    for (let i = sliceAt(row, from); i < row.n && row.start[i] < until; i++) {
      const left = (row.start[i] - from) * scale;
      let right = (row.end[i] - from) * scale;
      const kind = row.kind[i];
      const rgb = kind >= 0 ? colours.tasks[kind] : isTall ? colours.idle[-1 - kind] : colours.pale[-1 - kind];
      if (kind < 0) {
        whole.span(left, right, rgb);
        continue;
      }
      // Neighbours of the same colour are told apart by a hair between them.
      if (isTall && right - left > 5) right -= 1;
      whole.span(left, right, rgb);
      if (isTall) tasks.span(left, right, rgb);
    }
    const all = whole.pack(base);
    const upper = isTall ? tasks.pack(base) : all;
    const margin = isTall ? Math.round((bottom - top) * 0.32) : 0;
    const height = this.image.height;
    for (let y = Math.max(top, 0); y < Math.min(bottom, height); y++) {
      this.pixels.set(y >= top + margin && y < bottom - margin ? all : upper, y * width);
    }
  }
}
