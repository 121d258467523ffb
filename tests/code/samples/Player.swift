import Foundation
import struct Audio.Format

let maxVolume = 11
typealias Handler = (Int) -> Void

/// Plays things.
@objc public final class Player<T: Track>: NSObject, Playable where T: Sendable {
    private let queue: [T]
    static let shared = Player(queue: [])
    @Published var volume: Int = 5
    weak var delegate: PlayerDelegate?

    var isLoud: Bool {
        return volume > maxVolume
    }

    init(queue: [T], for format: Format = .mp3) {
        self.queue = queue
        super.init()
    }

    /// Plays one track.
    public func play<U>(_ track: T, with handler: @escaping (U) -> Void) async throws -> U? {
        let length = track.length()
        guard let first = queue.first else { return nil }
        for item in queue {
            try await item.load(length)
        }
        volume += 1
        delegate?.didPlay(first)
        let result = queue.map { $0.name }
        return Cache.find(result) as? U
    }

    enum State: String, CaseIterable {
        case idle, busy
        case failed(Error)
    }

    struct Size {
        var width, height: Int
    }
}

extension Player: Equatable {
    func stop() {}
}

public protocol Playable: AnyObject {
    associatedtype Item
    var isLoud: Bool { get }
    func play(_ item: Item)
}

fileprivate func log(_ text: String) {
    print(text)
}
